import { MeshError } from "../codec/code.ts";
import type { Newcomer } from "../driver/admission.ts";
import { sameBytes } from "../stores/store.ts";
import { checkCounts } from "./fit.ts";
import type { AdmissionModule, Certified } from "./module.ts";

/** A network and its authority. */
export interface ClosedNetwork {
  /** Name of the network, without the key. */
  readonly network: string;
  /** Public key of its authority. */
  readonly authority: Uint8Array;
}

/** Throws unless one of these values is a certificate of a newcomer that counts now, for the place that its id has. */
export async function checkNewcomer(
  { network, authority }: ClosedNetwork,
  { id, key }: Newcomer,
  values: readonly Uint8Array[],
  module: AdmissionModule,
): Promise<void> {
  let wrong: unknown = new MeshError("NoCertificate");
  for (const value of values) {
    try {
      const holder = { network, authority, key };
      return checkPlace(await module.certified(holder, Uint8Array.from(value)), id);
    } catch (error) {
      wrong = error;
    }
  }
  throw wrong;
}

function checkPlace(certified: Certified, id: Uint8Array): void {
  checkCounts(certified, Date.now());
  if (!sameBytes(certified.id, id)) throw new MeshError("WrongAddress");
}
