// A file of its own: a bundle that only looks names up leaves it out, and the module with it.
import compiled from "../../core/core-closed.wasm";

/** The compiled core of closed networks. */
export const closedCore = (): Promise<WebAssembly.Module> => Promise.resolve(compiled);
