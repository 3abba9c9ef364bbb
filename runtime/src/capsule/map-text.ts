import { MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";

/** Longest key, in bytes of UTF-8: the module's `MAX_KEY_BYTES`. */
export const MAX_KEY_BYTES = 1024;
/** Longest value: the module's `MAX_VALUE_BYTES`. */
export const MAX_VALUE_BYTES: number = 1024 * 1024 - 8 * 1024;

/** The bytes of a key. Throws `BadInput` for one that is empty or no Unicode, `TooLarge` for one that is too long. */
export function keyBytes(key: string): Uint8Array {
  const bytes = textBytes(key, "a key");
  if (bytes.length === 0) throw new MeshError("BadInput", "a key is not empty");
  if (bytes.length > MAX_KEY_BYTES) {
    throw new MeshError(
      "TooLarge",
      `a key has at most ${MAX_KEY_BYTES} bytes of UTF-8; got ${bytes.length}: hash a longer one`,
    );
  }
  return bytes;
}

/** The bytes of a value. Throws `BadInput` for a text that is no Unicode, `TooLarge` for what is too long. */
export function valueBytes(value: Uint8Array | string): Uint8Array {
  const bytes = typeof value === "string" ? textBytes(value, "a value that is text") : value;
  if (bytes.length > MAX_VALUE_BYTES) {
    throw new MeshError(
      "TooLarge",
      `a value has at most ${MAX_VALUE_BYTES} bytes; got ${bytes.length}: put what is longer into parts`,
    );
  }
  return bytes;
}

/** The bytes of a text. UTF-8 has none for half of a surrogate pair: all of these would be the same. */
export function textBytes(text: string, what: string): Uint8Array {
  const half = /\p{Surrogate}/u.exec(text);
  if (half !== null) {
    const code = half[0].charCodeAt(0).toString(16).toUpperCase();
    throw new MeshError(
      "BadInput",
      `${what} is well-formed Unicode; at ${half.index} is half a surrogate pair, U+${code}`,
    );
  }
  return utf8(text);
}
