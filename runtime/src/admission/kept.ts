import { Reader, Writer } from "../codec/field.ts";
import { toHex } from "../codec/hex.ts";
import type { Applicant } from "../driver/admission.ts";

/** A certificate that a node has kept. */
export interface Kept {
  readonly certificate: Uint8Array<ArrayBuffer>;
  /** When it is time to look for the next one. */
  readonly due_ms: number;
}

/** Reads the certificate that a node has kept; `undefined` if there is none. */
export async function readKept({ state, key }: Applicant): Promise<Kept | undefined> {
  const bytes = await state.own(nameOf(key));
  if (bytes === undefined || bytes.length <= 8) return undefined;
  const reader = new Reader(bytes);
  return { due_ms: Number(reader.u64()), certificate: reader.rest().slice() };
}

/** Keeps a certificate, or none any more: what sleeps or starts again does not have to look for it. */
export async function keep({ state, key }: Applicant, kept: Kept | undefined): Promise<void> {
  const value =
    kept &&
    new Writer()
      .u64(BigInt(Math.trunc(kept.due_ms)))
      .raw(kept.certificate)
      .copy();
  await state.setOwn({ [nameOf(key)]: value ?? null });
}

/** Isolates that share a store have keys of their own. */
function nameOf(key: Uint8Array): string {
  return `certificate:${toHex(key)}`;
}
