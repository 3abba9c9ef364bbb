import { fromBase32, toBase32 } from "../codec/base32.ts";

/** Length of a capsule's name, with which each of its keys in a store begins. */
export const NAME_BYTES = 32;
/** Where a request holds the name of its capsule. */
const NAME_AT = 1;

/** The name of the capsule that a request is about, in base32; nothing if it is too short to have one. */
export function capsuleOf(message: Uint8Array): string | undefined {
  const name = message.subarray(NAME_AT, NAME_AT + NAME_BYTES);
  return name.length === NAME_BYTES ? toBase32(name) : undefined;
}

/** Whether a text is the name of a capsule in base32. */
export function isName(text: string): boolean {
  return /^[a-z2-7]{51}[aq]$/.test(text);
}

/** The 32 bytes of a capsule's name in base32. */
export function nameOf(capsule: string): Uint8Array {
  return fromBase32(capsule, NAME_BYTES, "the name of a capsule");
}
