import { MeshError } from "../codec/code.ts";
import type { Applicant, Certify, Confirm, Membership, Newcomer } from "../driver/admission.ts";
import { readCertificate } from "../driver/signed-text.ts";
import { reasonOf } from "../guard.ts";
import { sameBytes } from "../stores/store.ts";
import { checkNewcomer } from "./confirm.ts";
import { checkFits } from "./fit.ts";
import { keep, readKept } from "./kept.ts";
import type { AdmissionModule, Certified } from "./module.ts";

/** Least time between two lookups of one node's certificate, also while none is found. */
const LEAST_WAIT_MS = 60_000;

/** Where certificates come from. */
export interface CertificateSource {
  /** Finds what may be certificates of a node; throws if there is nothing. */
  readonly find: (applicant: Applicant) => Promise<readonly Uint8Array[]>;
  /** Finds what may be certificates of a newcomer; `undefined` if that is not known here. */
  readonly findNewcomer: ((newcomer: Newcomer) => Promise<readonly Uint8Array[]>) | undefined;
  /** Whether it may have others later. */
  readonly renews: boolean;
  /** A list of revocations to begin with. */
  readonly revocations: Uint8Array | undefined;
}

/** A node's membership by certificates of one source. */
export class CertificateHolder implements Membership {
  readonly #applicant: Applicant;
  readonly #source: CertificateSource;
  readonly #module: AdmissionModule;
  #inUse: Certified;
  #due_ms: number;
  /** Whether a peer has said that the certificate in use was revoked. */
  #isRevoked = false;

  private constructor(
    applicant: Applicant,
    source: CertificateSource,
    module: AdmissionModule,
    inUse: Certified,
    due_ms: number,
  ) {
    this.#applicant = applicant;
    this.#source = source;
    this.#module = module;
    this.#inUse = inUse;
    this.#due_ms = due_ms;
  }

  /** Finds the certificate that a node begins with: the one that it has kept, while no other is due, or the newest. */
  static async admit(
    applicant: Applicant,
    source: CertificateSource,
    module: AdmissionModule,
  ): Promise<CertificateHolder> {
    const kept = await usableKept(applicant, module);
    if (kept !== undefined && source.renews && Date.now() < kept.due_ms)
      return new CertificateHolder(applicant, source, module, kept.certified, kept.due_ms);
    const inUse = await first(applicant, source, module, kept);
    const holder = new CertificateHolder(applicant, source, module, inUse, 0);
    await holder.#keep();
    return holder;
  }

  get id(): Uint8Array {
    return this.#inUse.id;
  }

  get certificate(): Uint8Array {
    return this.#inUse.certificate;
  }

  get revocations(): Uint8Array | undefined {
    return this.#source.revocations;
  }

  get confirm(): Confirm | undefined {
    const { findNewcomer } = this.#source;
    if (findNewcomer === undefined) return undefined;
    return async (newcomer) =>
      checkNewcomer(this.#applicant, newcomer, await findNewcomer(newcomer), this.#module);
  }

  async renew(given: string | Uint8Array, certify: Certify): Promise<void> {
    await this.#use(await certifiedOf(this.#applicant, this.#module, readCertificate(given)), certify);
  }

  tend(certify: Certify): Promise<void> | undefined {
    const now_ms = Date.now();
    if (!this.#source.renews || now_ms < this.#due_ms) return undefined;
    // Not again before this lookup is over.
    this.#due_ms = now_ms + LEAST_WAIT_MS;
    return this.#lookUp(certify);
  }

  async distrust(): Promise<void> {
    this.#isRevoked = true;
    this.#due_ms = Date.now() + LEAST_WAIT_MS;
    await keep(this.#applicant, { certificate: this.#inUse.certificate, due_ms: 0 });
  }

  async #lookUp(certify: Certify): Promise<void> {
    try {
      const next = await newest(this.#applicant, this.#source, this.#module);
      if (this.#isRevoked || next.expires_ms > this.#inUse.expires_ms) await this.#use(next, certify);
      else await this.#keep();
    } catch (error) {
      this.#applicant.log("warn", `the certificate of admission is not renewed: ${reasonOf(error)}`);
      await this.#keep();
    }
  }

  async #use(next: Certified, certify: Certify): Promise<void> {
    if (!sameBytes(next.id, this.#inUse.id))
      throw new MeshError(
        "WrongSeat",
        "the certificate is for another address than the one in use: start the node anew with it",
      );
    await certify(next.certificate);
    this.#inUse = next;
    this.#isRevoked = false;
    await this.#keep();
  }

  /** Keeps the certificate in use; it is time for the next one once half of the time that is left to it is over. */
  async #keep(): Promise<void> {
    if (this.#isRevoked) return;
    const { certificate, expires_ms } = this.#inUse;
    const now_ms = Date.now();
    this.#due_ms = now_ms + Math.max((expires_ms - now_ms) / 2, LEAST_WAIT_MS);
    await keep(this.#applicant, { certificate, due_ms: this.#due_ms });
  }
}

/** A certificate that a node has kept, and that counts still. */
interface Usable {
  readonly certified: Certified;
  readonly due_ms: number;
}

/** The certificate that a node has kept, if it counts still. */
async function usableKept(applicant: Applicant, module: AdmissionModule): Promise<Usable | undefined> {
  const kept = await readKept(applicant);
  if (kept === undefined) return undefined;
  try {
    return { certified: await certifiedOf(applicant, module, kept.certificate), due_ms: kept.due_ms };
  } catch (error) {
    if (error instanceof MeshError) return undefined;
    throw error;
  }
}

/** The newest certificate of a source, or the one that was kept if that is newer or the source gives none that counts. */
async function first(
  applicant: Applicant,
  source: CertificateSource,
  module: AdmissionModule,
  kept: Usable | undefined,
): Promise<Certified> {
  try {
    const found = await newest(applicant, source, module);
    const isBetter = kept !== undefined && kept.due_ms > 0 && kept.certified.expires_ms > found.expires_ms;
    return isBetter ? kept.certified : found;
  } catch (error) {
    // A certificate that was given and is wrong otherwise is a mistake to tell of.
    const mayPass = error instanceof MeshError && (source.renews || error.name === "ExpiredCertificate");
    if (kept === undefined || !mayPass) throw error;
    applicant.log("warn", `the certificate that was kept is used: ${error.message}`);
    return kept.certified;
  }
}

/** The certificate of a source that counts now, and of several the one that does so for longest. */
async function newest(
  applicant: Applicant,
  source: CertificateSource,
  module: AdmissionModule,
): Promise<Certified> {
  let found: Certified | undefined;
  let wrong: unknown;
  for (const value of await source.find(applicant)) {
    try {
      const certified = await certifiedOf(applicant, module, readCertificate(value));
      if (found === undefined || found.expires_ms < certified.expires_ms) found = certified;
    } catch (error) {
      wrong = error;
    }
  }
  if (found === undefined) throw wrong;
  return found;
}

/** What a certificate says; throws unless it counts now, for this node. */
async function certifiedOf(
  applicant: Applicant,
  module: AdmissionModule,
  certificate: Uint8Array<ArrayBuffer>,
): Promise<Certified> {
  const certified = await module.certified(applicant, certificate);
  checkFits(certified, applicant, Date.now());
  return certified;
}
