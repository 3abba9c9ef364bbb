import type { IncomingMessage } from "node:http";

/** Schemes of targets in absolute form. */
const SCHEMES: ReadonlySet<string> = /* @__PURE__ */ new Set(["http:", "https:"]);

/** The fields of a request, or of an answer. */
export function fieldsOf({ headersDistinct }: Pick<IncomingMessage, "headersDistinct">): Headers {
  const headers = new Headers();
  for (const [name, values] of Object.entries(headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  return headers;
}

/** The path of a request; `undefined` where its target is no URL. */
export function pathOf(incoming: IncomingMessage): string | undefined {
  try {
    return urlOf(incoming).pathname;
  } catch {
    return undefined;
  }
}

/** The URL of a request (RFC 9112, 3.3). Throws when its target or host is none, or there are several: neither may bring parts of the other. */
export function urlOf({ url: target = "/", headers, headersDistinct }: IncomingMessage): URL {
  if ((headersDistinct.host?.length ?? 0) > 1) throw new TypeError("a request has several hosts");
  const isAbsolute = !target.startsWith("/") && target !== "*";
  const host = new URL(isAbsolute ? target : `http://${headers.host ?? "localhost"}`);
  if (isAbsolute && !SCHEMES.has(host.protocol))
    throw new TypeError("the target of a request is no URL of HTTP");
  if (isAbsolute) return host;
  if (host.href !== `${host.origin}/`) throw new TypeError("the host of a request is no host");
  return new URL(host.origin + (target === "*" ? "" : target));
}
