import { MeshError } from "./code.ts";

const digits: readonly string[] = /* @__PURE__ */ Array.from({ length: 256 }, (_, byte) =>
  byte.toString(16).padStart(2, "0"),
);

/** Bytes as lower-case hex. */
export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += digits[byte];
  return text;
}

/** Reads hex of exactly `length` bytes; `what` names the value in the error. */
export function fromHex(text: string, length: number, what: string): Uint8Array<ArrayBuffer> {
  // What was given may be a secret: only where it is wrong is said.
  const wrong = text.search(/[^0-9a-f]/i);
  const got = text.length !== length * 2 ? `got ${text.length}` : `character ${wrong + 1} is none`;
  if (text.length !== length * 2 || wrong >= 0) {
    throw new MeshError("BadConfig", `${what} must be ${length * 2} hexadecimal digits; ${got}`);
  }
  return Uint8Array.from({ length }, (_, index) => Number.parseInt(text.slice(index * 2, index * 2 + 2), 16));
}

/** Bytes as base64url without padding. */
export function toBase64Url(bytes: Uint8Array): string {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Reads base64url; `what` names the value in the error. */
export function fromBase64Url(text: string, what: string): Uint8Array<ArrayBuffer> {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) {
    throw new MeshError("BadConfig", `${what} is base64url without padding`);
  }
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}
