import type { Role } from "../codec/config.ts";
import type { LogLevel } from "./log.ts";
import type { State } from "./state.ts";

/** How the authority of a closed network admits a node: `certificate` or `dns` of `selfsame/admission` makes one. */
export interface AdmissionMethod {
  /** The compiled core of closed networks. */
  readonly core: () => Promise<WebAssembly.Module>;
  /** Finds the certificate that a node begins with. */
  readonly admit: (applicant: Applicant) => Promise<Membership>;
}

/** A node that wants to be admitted. */
export interface Applicant {
  /** Name of the network, without the key. */
  readonly network: string;
  /** Public key of the network's authority. */
  readonly authority: Uint8Array;
  /** Public key of the node in the network. */
  readonly key: Uint8Array;
  /** Member or leaf. */
  readonly role: Role;
  /** URLs at which others dial the node. */
  readonly addresses: readonly string[];
  /** Where the node keeps its certificate. */
  readonly state: Pick<State, "own" | "setOwn">;
  /** Tells the operator. */
  readonly log: (level: LogLevel, text: string) => void;
}

/** Has the core go on with another certificate. */
export type Certify = (certificate: Uint8Array) => Promise<void>;

/** A peer that wants to become a neighbour. */
export interface Newcomer {
  /** Its id, which follows from its key and the address of its certificate. */
  readonly id: Uint8Array;
  /** Its public key. */
  readonly key: Uint8Array;
  /** The address that it connected from as the platform tells it, or empty. */
  readonly source: string;
}

/** Checks that a certificate which counts now stands in the DNS for a newcomer; throws why none does. */
export type Confirm = (newcomer: Newcomer) => Promise<void>;

/** The membership of a node in a closed network. */
export interface Membership {
  /** The node's id. */
  readonly id: Uint8Array;
  /** The certificate in use. */
  readonly certificate: Uint8Array;
  /** A list of revocations to begin with. */
  readonly revocations: Uint8Array | undefined;
  /** Looks newcomers up; `undefined` if a node takes them by the certificates that they show. */
  readonly confirm: Confirm | undefined;
  /** Goes on with another certificate, and keeps it. */
  renew(certificate: string | Uint8Array, certify: Certify): Promise<void>;
  /** Looks for the next certificate if it is time to; cheap if not. */
  tend(certify: Certify): Promise<void> | undefined;
  /** Takes any other certificate soon: a peer has said, though it may lie, that the one in use was revoked. */
  distrust(): Promise<void>;
}
