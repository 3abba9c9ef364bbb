import { readFile } from "node:fs/promises";
import { ADMISSION_ABI_VERSION, type AdmissionDerive, admissionDeriveCodec } from "../src/codec/admission.ts";
import { fromUtf8, Writer } from "../src/codec/field.ts";
import { fromHex, toBase64Url, toHex } from "../src/codec/hex.ts";
import { ModuleInstance } from "../src/driver/instance.ts";

const HOUR_MS = 3_600_000;

/** What a test certifies. */
export interface Terms {
  /** Where others reach a member, `host:port`; none for a leaf. */
  readonly address?: string;
  /** From when on it counts, in milliseconds from now; a moment ago unless given. */
  readonly from_ms?: number;
  /** When it stops to count; in an hour unless given. */
  readonly until_ms?: number;
}

/** The authority of a closed network, as `selfsame authority` is. */
export class Authority {
  /** Full name of the network. */
  readonly network: string;
  readonly #instance: ModuleInstance;
  readonly #name: string;
  readonly #seed: Uint8Array;
  readonly #now_ms: () => number;
  #serial = 1;

  private constructor(instance: ModuleInstance, name: string, seed: Uint8Array, now_ms: () => number) {
    this.#now_ms = now_ms;
    this.#instance = instance;
    this.#name = name;
    this.#seed = seed;
    const key = this.#derive({ type: "Authority", seed, network: name }).subarray(0, 32);
    this.network = `${name}@${toHex(key)}`;
  }

  /** Makes the authority with a seed of this byte; `now_ms` is its clock. */
  static async of(byte: number, name = "test", now_ms: () => number = () => Date.now()): Promise<Authority> {
    const bytes = await readFile(new URL("../core/admission.wasm", import.meta.url));
    const kind = { file: "admission.wasm", version: ADMISSION_ABI_VERSION };
    const instance = await ModuleInstance.of(await WebAssembly.compile(bytes), kind);
    return new Authority(instance, name, new Uint8Array(32).fill(byte), now_ms);
  }

  /** Certifies a key, 64 hex digits; the certificate as text. */
  certify(key: string, { address = "", from_ms = -1000, until_ms = HOUR_MS }: Terms = {}): string {
    const now_ms = this.#now_ms();
    const certificate = this.#derive({
      type: "Certificate",
      seed: this.#seed,
      network: this.#name,
      key: fromHex(key, 32, "the key"),
      serial: this.#serial++,
      not_before_ms: now_ms + from_ms,
      expiry_ms: now_ms + until_ms,
      address,
    });
    return toBase64Url(certificate);
  }

  /** Revokes what was certified to these keys before now; the list as text. */
  revoke(keys: readonly string[], serial: number = this.#now_ms()): string {
    const writer = new Writer();
    for (const key of keys) writer.raw(fromHex(key, 32, "the key")).u64(BigInt(this.#now_ms()));
    const revoked = writer.copy();
    return toBase64Url(
      this.#derive({ type: "Revocations", seed: this.#seed, network: this.#name, serial, revoked }),
    );
  }

  /** The name in the DNS of the certificates of a key. */
  nameOf(key: string, domain: string): string {
    return fromUtf8(this.#derive({ type: "PeerName", key: fromHex(key, 32, "the key"), domain }));
  }

  #derive(request: AdmissionDerive): Uint8Array {
    const writer = new Writer();
    admissionDeriveCodec.encode(writer, request);
    const answer = this.#instance.ask("derive", writer);
    const status = answer.u16();
    if (status !== 0) throw new Error(`the authority makes no ${request.type}: error ${status}`);
    return answer.rest();
  }
}
