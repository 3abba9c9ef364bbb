import { Reader, Writer } from "../codec/field.ts";
import { toHex } from "../codec/hex.ts";
import type { Applicant } from "../driver/admission.ts";

/** A certificate that a node has kept. */
export interface Kept {
  readonly certificate: Uint8Array<ArrayBuffer>;
  /** When it is time to look for the next one; 0 if any other is better, as a peer has said that it was revoked. */
  readonly due_ms: number;
}

/** Reads the certificate that a node has kept; `undefined` if there is none. */
export async function readKept({ state, key }: Applicant): Promise<Kept | undefined> {
  const bytes = await state.own(nameOf(key));
  if (bytes === undefined || bytes.length <= 8) return undefined;
  const reader = new Reader(bytes);
  return { due_ms: Number(reader.u64()), certificate: reader.rest().slice() };
}

/** Keeps a certificate: what sleeps or starts again does not have to look for it. */
export async function keep({ state, key }: Applicant, { certificate, due_ms }: Kept): Promise<void> {
  const value = new Writer().u64(BigInt(Math.trunc(due_ms))).raw(certificate);
  await state.setOwn({ [nameOf(key)]: value.copy() });
}

/** Isolates that share a store have keys of their own. */
function nameOf(key: Uint8Array): string {
  return `certificate:${toHex(key)}`;
}
