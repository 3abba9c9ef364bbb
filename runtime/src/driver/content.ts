import { concat } from "../concat.ts";
import { socketPair } from "../websocket/native.ts";

/** Codings that `fetch` of Node and of browsers decodes. */
const CODINGS: ReadonlySet<string> = /* @__PURE__ */ new Set(["gzip", "x-gzip", "deflate", "br", "zstd"]);
/** Those that Deno and workerd decode; the others they leave as they are. */
const FEW_CODINGS: ReadonlySet<string> = /* @__PURE__ */ new Set(["gzip", "br"]);
/** How many bytes tell whether a body is text. */
const SAMPLE = 64;

/** Answers of the mesh, whose bytes are as their label says. */
const unchanged: WeakSet<Response> = /* @__PURE__ */ new WeakSet();

/** Says that the body of an answer is as its label says. */
export function markUnchanged(response: Response): Response {
  unchanged.add(response);
  return response;
}

/** The body of an answer as it is sent. */
export interface Content {
  readonly body: ReadableStream<Uint8Array> | null;
  /** Whether the platform has decoded it and left `content-encoding` and `content-length` of what it was. */
  readonly isDecoded: boolean;
}

/**
 * The body of a handler's answer. What came from `fetch` the platform has decoded; what was copied from such an answer, or encoded
 * by the handler itself, is told by its first bytes, for which the head of such an answer waits.
 */
export async function contentOf(response: Response): Promise<Content> {
  const { body, type, url, headers } = response;
  const isWorkerd = socketPair() !== undefined;
  const decoded = isWorkerd || "Deno" in globalThis ? FEW_CODINGS : CODINGS;
  const codings = (headers.get("content-encoding") ?? "")
    .split(",")
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== "" && coding !== "identity");
  const [outermost] = codings.slice(-1);
  if (outermost === undefined || unchanged.has(response) || !codings.every((coding) => decoded.has(coding))) {
    return { body, isDecoded: false };
  }
  if (type !== "default" || url !== "") return { body, isDecoded: true };
  if (body === null) return { body, isDecoded: false };
  const { first, whole } = await peek(body);
  // workerd decodes what JavaScript reads unless it was made otherwise, and brotli has no sign of its own.
  const isEncoded = outermost === "br" ? !isWorkerd && !isText(first) : beginsAs(outermost, first);
  return { body: whole, isDecoded: !isEncoded };
}

/** Whether bytes begin as those of a coding do (RFC 1952, 2.3.1; RFC 1950, 2.2; RFC 8878, 3.1). */
function beginsAs(coding: string, bytes: Uint8Array): boolean {
  const [one = 0, two = 0] = bytes;
  if (coding === "deflate") return (one & 0x0f) === 8 && ((one << 8) | two) % 31 === 0;
  const magic = coding === "zstd" ? [0x28, 0xb5, 0x2f, 0xfd] : [0x1f, 0x8b];
  return bytes.length > 0 && magic.slice(0, bytes.length).every((byte, index) => byte === bytes[index]);
}

/** Whether bytes are the beginning of a text, as those of brotli hardly ever are. */
function isText(bytes: Uint8Array): boolean {
  const sample = bytes.subarray(0, SAMPLE);
  if (sample.some((byte) => byte === 0x7f || (byte < 0x20 && ![0x09, 0x0a, 0x0d].includes(byte))))
    return false;
  try {
    new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(sample, { stream: true });
    return true;
  } catch {
    return false;
  }
}

/** Bytes at the beginning of a body that tell its coding. */
const TELLING = 2;

/** The first bytes of a body, enough to tell its coding unless it has fewer, and a body with all of them. */
async function peek(
  body: ReadableStream<Uint8Array>,
): Promise<{ first: Uint8Array; whole: ReadableStream<Uint8Array> }> {
  const reader = body.getReader();
  let first: Uint8Array = new Uint8Array();
  let isDone = false;
  // A stream may begin with chunks that are empty, or too short.
  while (!isDone && first.length < TELLING) {
    const { done, value = new Uint8Array() } = await reader.read();
    isDone = done;
    first = first.length === 0 ? value : concat([first, value]);
  }
  let pending: Uint8Array | undefined = first.length > 0 ? first : undefined;
  const whole = new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const value = pending ?? (isDone ? undefined : (await reader.read()).value);
        pending = undefined;
        if (value === undefined) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  return { first, whole };
}
