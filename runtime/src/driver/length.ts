import { MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";
import { LENGTH } from "../codec/http-grammar.ts";

/** Methods whose recipients expect a body (RFC 9110, 8.6): without one they say so. */
const WITH_BODY: ReadonlySet<string> = /* @__PURE__ */ new Set(["POST", "PUT"]);

/** How long a body is that `fetch` is given, where that is known before it is read. */
export function lengthOf(body: RequestInit["body"]): number | undefined {
  if (typeof body === "string") return utf8(body).length;
  if (body instanceof URLSearchParams) return utf8(body.toString()).length;
  if (body instanceof Blob) return body.size;
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return body.byteLength;
  return undefined;
}

/** The length that the headers of a message say; `undefined` where they say none. */
export function declaredLength(headers: Headers): number | undefined {
  const value = headers.get("content-length") ?? "";
  return LENGTH.test(value) ? Number(value) : undefined;
}

/** What a request says of its length: 0 stands for a body that is not there. */
export function saidLength(method: string, hasBody: boolean, known: number | undefined): number | undefined {
  if (method === "GET" || method === "HEAD") return undefined;
  if (hasBody) return known;
  return WITH_BODY.has(method) ? 0 : undefined;
}

/** Measures a body against the length that its message says. */
export class Measure {
  readonly #expected: number | undefined;
  #seen = 0;

  constructor(expected: number | undefined) {
    this.#expected = expected;
  }

  /** Counts bytes before they are passed on. Throws `BadMessage` when they are too many. */
  add(bytes: number): void {
    this.#seen += bytes;
    if (this.#expected !== undefined && this.#seen > this.#expected) throw this.#error("more");
  }

  /** Nothing follows. Throws `BadMessage` when the bytes were too few. */
  end(): void {
    if (this.#expected !== undefined && this.#seen < this.#expected) throw this.#error("fewer");
  }

  #error(what: "more" | "fewer"): MeshError {
    const text = `the body has ${what} bytes than its content-length says, which is ${this.#expected}`;
    return new MeshError("BadMessage", text);
  }
}
