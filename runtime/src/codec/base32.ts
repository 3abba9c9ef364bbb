import { MeshError } from "./code.ts";

const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";

/** Encodes bytes in base32 (RFC 4648, 6) in lower case without padding: 32 bytes are 52 characters, which fit a name. */
export function toBase32(bytes: Uint8Array): string {
  let text = "";
  let [held, bits] = [0, 0];
  for (const byte of bytes) {
    held = ((held << 8) | byte) & 0xfff;
    for (bits += 8; bits >= 5; bits -= 5) text += ALPHABET[(held >> (bits - 5)) & 31];
  }
  return bits === 0 ? text : text + ALPHABET[(held << (5 - bits)) & 31];
}

/** Decodes `length` bytes of base32, whose one encoding alone is taken; `what` names them in the error. */
export function fromBase32(text: string, length: number, what: string): Uint8Array {
  const bytes = new Uint8Array(length);
  let [held, bits, at] = [0, 0, 0];
  for (const character of text) {
    held = ((held << 5) | ALPHABET.indexOf(character)) & 0xfff;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes[at++] = held >> bits;
  }
  if (toBase32(bytes) !== text) throw new MeshError("BadConfig", `${what} is ${length} bytes in base32`);
  return bytes;
}
