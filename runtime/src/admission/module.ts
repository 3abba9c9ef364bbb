import {
  ADMISSION_ABI_VERSION,
  type AdmissionDerive,
  type AdmissionVerify,
  admissionDeriveCodec,
  admissionOutcomeCodec,
  admissionVerifyCodec,
} from "../codec/admission.ts";
import { readItems } from "../codec/batch.ts";
import { MeshError } from "../codec/code.ts";
import { fromUtf8, Reader, Writer } from "../codec/field.ts";
import { ModuleInstance } from "../driver/instance.ts";

const KIND = { file: "admission.wasm", version: ADMISSION_ABI_VERSION };

/** A query for a name under way. */
export interface Query {
  /** By which the response is known. */
  readonly id: number;
  readonly name: string;
}

/** What a response says of a name: its values, none, or that it did not fit a datagram. */
export type Outcome =
  | {
      readonly type: "Found";
      readonly values: Uint8Array[];
      readonly ttl_s: number;
      readonly isAuthentic: boolean;
    }
  | { readonly type: "Absent"; readonly ttl_s: number }
  | { readonly type: "Truncated" };

/** Whom a certificate has to be for. */
export interface Holder {
  /** Name of the network, without the key. */
  readonly network: string;
  /** Public key of the network's authority. */
  readonly authority: Uint8Array;
  /** Public key of the node in the network. */
  readonly key: Uint8Array;
}

/** A certificate whose signature is verified, and what it says. */
export interface Certified {
  /** The signed bytes. */
  readonly certificate: Uint8Array<ArrayBuffer>;
  /** The id that its holder has in the network. */
  readonly id: Uint8Array;
  /** From when on it counts. */
  readonly notBefore_ms: number;
  /** When it stops to count. */
  readonly expires_ms: number;
  /** Where others reach a member, `host:port`; empty for a leaf. */
  readonly address: string;
}

/** admission.wasm, in an instance that is replaced when it has trapped. */
export class AdmissionModule {
  readonly #module: () => Promise<WebAssembly.Module>;
  #instance: Promise<ModuleInstance> | undefined;

  constructor(module: () => Promise<WebAssembly.Module>) {
    this.#module = module;
  }

  /** Returns the name of a peer's record. */
  async peerName(key: Uint8Array, domain: string): Promise<string> {
    return fromUtf8(await this.#derive({ type: "PeerName", key, domain }));
  }

  /** Returns the name of the record of a network's authority. */
  async authorityName(domain: string): Promise<string> {
    return fromUtf8(await this.#derive({ type: "AuthorityName", domain }));
  }

  /** Returns the message of a query. */
  message({ id, name }: Query): Promise<Uint8Array> {
    return this.#derive({ type: "Query", id, name });
  }

  /** Returns what a response to a query says; throws a `MeshError` with the code of what is wrong with it. */
  async outcome({ id, name }: Query, isDatagram: boolean, message: Uint8Array): Promise<Outcome> {
    const request = { id, name, is_datagram: isDatagram, message };
    const answer = await this.#verify({ type: "Response", ...request });
    const [item] = readItems(answer);
    if (item === undefined) throw new MeshError("BadInput");
    const outcome = admissionOutcomeCodec.decode(item);
    if (outcome.type !== "Found") return outcome;
    const { ttl_s, is_authentic: isAuthentic } = outcome;
    return { type: "Found", ttl_s, isAuthentic, values: valuesIn(outcome.values) };
  }

  /** Returns what a certificate says, whether or not it counts now; throws a `MeshError` with the code of what is wrong with it. */
  async certified(
    { network, authority, key }: Holder,
    certificate: Uint8Array<ArrayBuffer>,
  ): Promise<Certified> {
    const answer = await this.#verify({ type: "Certificate", authority, network, key, certificate });
    const reader = new Reader(answer);
    const id = reader.take(32);
    // Its serial, by which nothing is told apart here.
    reader.u64();
    const [notBefore_ms, expires_ms] = [Number(reader.u64()), Number(reader.u64())];
    return { certificate, id, notBefore_ms, expires_ms, address: fromUtf8(reader.bytes()) };
  }

  #derive(request: AdmissionDerive): Promise<Uint8Array> {
    const writer = new Writer();
    admissionDeriveCodec.encode(writer, request);
    return this.#ask("derive", writer);
  }

  #verify(request: AdmissionVerify): Promise<Uint8Array> {
    const writer = new Writer();
    admissionVerifyCodec.encode(writer, request);
    return this.#ask("verify", writer);
  }

  async #ask(family: "derive" | "verify", request: Writer): Promise<Uint8Array> {
    this.#instance ??= this.#instantiate();
    const instance = this.#instance;
    try {
      const answer = (await instance).ask(family, request);
      const status = answer.u16();
      if (status !== 0) throw new MeshError(status);
      return answer.rest();
    } catch (error) {
      // A trap, or a module that does not load: the next one begins anew.
      if (!(error instanceof MeshError) && this.#instance === instance) this.#instance = undefined;
      throw error;
    }
  }

  async #instantiate(): Promise<ModuleInstance> {
    return ModuleInstance.of(await this.#module(), KIND);
  }
}

function valuesIn(bytes: Uint8Array): Uint8Array[] {
  const reader = new Reader(bytes);
  const values: Uint8Array[] = [];
  while (!reader.isEmpty) values.push(reader.bytes().slice());
  return values;
}
