import type { WebSocketInit } from "../driver/caller.ts";
import { childOf, TRACEPARENT, TRACESTATE, writeContext } from "./context.ts";

/** What sends requests: a mesh, `c.var.mesh`, or a service of either. */
export interface Sender {
  fetch(input: Request | string | URL, init?: RequestInit): Promise<Response>;
  webSocket?(url: string | URL, protocols?: string | readonly string[], init?: WebSocketInit): unknown;
}

/**
 * The same mesh, whose requests belong to the one that is being handled; for Workers and other places that do not tell
 * who calls: `c.set("mesh", traced(c.var.mesh, c.req.raw))`.
 */
export function traced<T extends Sender>(sender: T, request: Request): T {
  const headersOf = (given: HeadersInit | undefined): Headers => {
    const headers = new Headers(given);
    // What the caller says itself counts.
    const names = headers.has(TRACEPARENT) ? [] : [TRACEPARENT, TRACESTATE];
    for (const name of names) {
      const value = request.headers.get(name);
      if (value !== null) headers.set(name, value);
    }
    return headers;
  };
  const fetch: Sender["fetch"] = (input, init = {}) => {
    const given = init.headers ?? (input instanceof Request ? input.headers : undefined);
    return sender.fetch(input, { ...init, headers: headersOf(given) });
  };
  const webSocket = (url: string | URL, protocols?: string | readonly string[], init: WebSocketInit = {}) =>
    sender.webSocket?.(url, protocols, { ...init, headers: headersOf(init.headers) });
  return new Proxy(sender, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      if (name === "fetch") return fetch;
      if (name === "webSocket") return webSocket;
      if (name === "service") {
        return (...options: unknown[]) => traced(value.apply(target, options) as Sender, request);
      }
      return value.bind(target);
    },
  });
}

/**
 * The same mesh, of whose requests no trace tells: for what is asked again and again, as a client of a capsule does. They are
 * counted like all others.
 */
export function untraced<T extends Sender>(sender: T): T {
  const headers = new Headers();
  writeContext(childOf(undefined, 0), headers);
  return traced(sender, new Request("https://untraced.mesh/", { headers }));
}
