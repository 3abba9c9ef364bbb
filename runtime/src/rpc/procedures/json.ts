import { MeshError } from "../../codec/code.ts";
import { utf8 } from "../../codec/field.ts";
import { MAX_DEPTH } from "./limits.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

const decoder: TextDecoder = /* @__PURE__ */ new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Writes a value as JSON; `undefined` is no bytes. */
export function writeJson(value: unknown, what: string): Uint8Array {
  try {
    // Functions and symbols have no JSON either.
    const text: string | undefined = JSON.stringify(value);
    if (text === undefined && value !== undefined) throw new TypeError(`a ${typeof value} has no JSON`);
    return utf8(text ?? "");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new MeshError("BadMessage", `${what} is not JSON: ${reason}`, { cause });
  }
}

/** Reads JSON of at most `most` bytes; no bytes are `undefined`. */
export function readJson(bytes: Uint8Array, most: number, what: string): unknown {
  if (bytes.length === 0) return undefined;
  if (bytes.length > most) {
    throw new MeshError("TooLarge", `${what} has at most ${most} bytes (got ${bytes.length})`);
  }
  if (isTooDeep(bytes)) throw new MeshError("BadMessage", `${what} is nested more than ${MAX_DEPTH} deep`);
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch {
    throw new MeshError("BadMessage", `${what} is not JSON`);
  }
}

function isTooDeep(bytes: Uint8Array): boolean {
  let depth = 0;
  let isText = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (isText) {
      if (byte === BACKSLASH) at++;
      else if (byte === QUOTE) isText = false;
    } else if (byte === QUOTE) isText = true;
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      if (++depth > MAX_DEPTH) return true;
    } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) depth--;
  }
  return false;
}
