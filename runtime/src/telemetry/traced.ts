import { TRACEPARENT, TRACESTATE } from "./context.ts";

/** What sends requests: a mesh, `c.var.mesh`, or a service of either. */
export interface Sender {
  fetch(input: Request | string | URL, init?: RequestInit): Promise<Response>;
}

/**
 * The same mesh, whose requests belong to the one that is being handled; for Workers and other places that do not tell
 * who calls: `c.set("mesh", traced(c.var.mesh, c.req.raw))`.
 */
export function traced<T extends Sender>(sender: T, request: Request): T {
  const within = (method: Sender["fetch"]): Sender["fetch"] => {
    return (input, init = {}) => {
      const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : undefined));
      // What the caller says itself counts.
      const names = headers.has(TRACEPARENT) ? [] : [TRACEPARENT, TRACESTATE];
      for (const name of names) {
        const value = request.headers.get(name);
        if (value !== null) headers.set(name, value);
      }
      return method(input, { ...init, headers });
    };
  };
  return new Proxy(sender, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      if (name === "fetch") return within((input, init) => target.fetch(input, init));
      if (name === "service") {
        return (...options: unknown[]) => traced(value.apply(target, options) as Sender, request);
      }
      return value.bind(target);
    },
  });
}
