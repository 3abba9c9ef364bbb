import { coreBase64 } from "../core-base64.js";
import { Mesh } from "../driver/mesh.ts";
import type { JoinOptions } from "../driver/options.ts";
import { joinAs } from "./join.ts";
import { leafPlatform } from "./slim.ts";

export { indexedDb } from "../stores/indexed-db.ts";
export * from "./common.ts";

let compiled: Promise<WebAssembly.Module> | undefined;

/** Compiles the core that the package carries inline, once. */
function compile(): Promise<WebAssembly.Module> {
  compiled ??= WebAssembly.compile(Uint8Array.from(atob(coreBase64), (character) => character.charCodeAt(0)));
  return compiled;
}

/** Starts a node in a page or worker, a leaf of the ring, and joins. */
export function join(options: JoinOptions): Promise<Mesh> {
  return joinAs(Mesh, options, leafPlatform(compile));
}
