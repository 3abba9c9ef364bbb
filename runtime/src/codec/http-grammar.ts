/**
 * What HTTP allows in a head, as the core checks it: one reading of RFC 9110 for all hosts, so that none of them takes for a field, a
 * path or an end of the body what another one does not.
 */

import { malformed } from "./field.ts";

/**
 * Fields that mean one hop (RFC 9110, 7.6.1), the host, which the service's name stands for, and what bodies may be compressed with,
 * since they travel as they are: no head has them.
 */
export const OF_ONE_HOP: ReadonlySet<string> = /* @__PURE__ */ new Set([
  "accept-encoding",
  "connection",
  "expect",
  "host",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
]);
/**
 * Methods whose meaning is the connection or the way, not the service (RFC 9110, 9.3.6 and 9.3.8), in any spelling: Fetch forbids
 * them too.
 */
const FORBIDDEN_METHODS: ReadonlySet<string> = /* @__PURE__ */ new Set(["CONNECT", "TRACE", "TRACK"]);
/** Those that Fetch writes in capitals: a host that does not takes another spelling for another method. */
const CAPITAL_METHODS: ReadonlySet<string> = /* @__PURE__ */ new Set([
  "DELETE",
  "GET",
  "HEAD",
  "OPTIONS",
  "POST",
  "PUT",
]);
/** RFC 9110, 5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** RFC 9110, 5.5: no control characters but tabs, no space at either end. */
const VALUE = /^(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?$/;
/** Longest name of a field, in bytes. */
const MAX_NAME = 256;
/** RFC 9110, 8.6; digits that every host can count to. */
export const LENGTH: RegExp = /^[0-9]{1,15}$/;
/** Path and query as the URL standard of WHATWG writes them: whoever parses them again finds the same. */
const PATH = /^\/[!$-;=@-[\]_a-z|~]*(?:\?[!$-&(-;=?-~]*)?$/;
/** Segments that mean the same or the one above, which a parser of URLs resolves. */
const DOTS = /\/(?:\.|%2e){1,2}(?:[/?]|$)/i;

/** Checks a method, and the path that goes with it. */
export function checkTarget(method: string, path: string): void {
  if (!isMethod(method)) throw malformed("the method of a request");
  const isPath = PATH.test(path) && !DOTS.test(path.split("?", 1)[0] ?? "");
  if (!isPath && !(path === "*" && method === "OPTIONS")) throw malformed("the path of a request");
}

function isMethod(method: string): boolean {
  const capitals = method.toUpperCase();
  const isSpelled = method === capitals || !CAPITAL_METHODS.has(capitals);
  return TOKEN.test(method) && isSpelled && !FORBIDDEN_METHODS.has(capitals);
}

/** The fields of one head, each checked as it is read. */
export class FieldGrammar {
  /** The method of a request; nothing in an answer. */
  readonly #method: string | undefined;
  #hasLength = false;

  constructor(method: string | undefined) {
    this.#method = method;
  }

  /** Checks a field. */
  check(name: string, value: string): void {
    if (this.fault(name, value) !== undefined) throw malformed("a header");
  }

  /** What is wrong with a field, if anything is; without its value, which may be a secret. */
  fault(name: string, value: string): string | undefined {
    if (!TOKEN.test(name) || /[A-Z]/.test(name)) return "is no name of a field in lower case";
    if (name.length > MAX_NAME) return `has a name of more than ${MAX_NAME} bytes`;
    if (OF_ONE_HOP.has(name)) return "belongs to one connection";
    if (!VALUE.test(value)) return "has a control character, one beyond U+00FF, or a space at an end";
    if (name === "upgrade" && !(this.#method === "GET" && value === "websocket")) {
      return "asks for something else than a WebSocket";
    }
    return name === "content-length" ? this.#faultOfLength(value) : undefined;
  }

  #faultOfLength(value: string): string | undefined {
    if (this.#hasLength) return "is there twice";
    this.#hasLength = true;
    if (!LENGTH.test(value)) return "is not 1 to 15 digits";
    const isBodiless = this.#method === "GET" || this.#method === "HEAD";
    return isBodiless && value !== "0" ? "is not 0 where there is no body" : undefined;
  }
}
