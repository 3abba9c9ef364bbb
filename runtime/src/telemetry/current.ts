import { type TraceContext, writeContext } from "./context.ts";

/** What of `AsyncLocalStorage` is used. */
export interface ContextStorage {
  run<T>(context: TraceContext, callback: () => T): T;
  getStore(): TraceContext | undefined;
}

interface BuiltinModules {
  getBuiltinModule?(name: "node:async_hooks"): { AsyncLocalStorage: new () => ContextStorage } | undefined;
}

/** Where the platform has no storage that follows a call: `traced` says there to which request another one belongs. */
const none: ContextStorage = {
  run: (_, callback) => callback(),
  getStore: () => undefined,
};

let storage: ContextStorage | undefined;

/** The storage that follows a handler through its asynchronous calls: Node, Deno and workerd with Node's modules have one. */
export function contexts(): ContextStorage {
  if (storage !== undefined) return storage;
  // An import would end the start of every page and of Workers without Node's modules.
  const { process } = globalThis as { process?: BuiltinModules };
  const hooks = process?.getBuiltinModule?.("node:async_hooks");
  storage = hooks === undefined ? none : new hooks.AsyncLocalStorage();
  return storage;
}

/**
 * The headers that make a request outside the mesh belong to the one that is being handled: `fetch(url, { headers:
 * traceHeaders() })`. Empty where nothing is handled, or where the platform does not tell.
 */
export function traceHeaders(): Headers {
  const headers = new Headers();
  const context = contexts().getStore();
  if (context !== undefined) writeContext(context, headers);
  return headers;
}
