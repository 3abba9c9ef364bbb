import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";

import {
  ADMISSION_ABI_VERSION,
  type AdmissionDerive,
  type AdmissionOutcome,
  type AdmissionVerify,
  admissionDeriveCodec,
  admissionOutcomeCodec,
  admissionVerifyCodec,
} from "../../runtime/src/codec/admission.ts";
import { readItems } from "../../runtime/src/codec/batch.ts";
import { codeName } from "../../runtime/src/codec/code.ts";
import { Reader, Writer } from "../../runtime/src/codec/field.ts";
import { ModuleInstance } from "../../runtime/src/driver/instance.ts";

const WASM = new URL("../../runtime/core/admission.wasm", import.meta.url);

/** A key of a name server for updates. */
export interface TsigKey {
  readonly name: string;
  readonly secret: Uint8Array;
}

/** A value of a name; none deletes what it has. */
export interface Change {
  readonly name: string;
  readonly value?: Uint8Array;
}

/** An update, and what its response is checked with. */
export interface Update {
  readonly id: number;
  readonly message: Uint8Array;
  readonly mac: Uint8Array;
  readonly key: TsigKey;
}

/** An error that the module gives. */
export class Refusal extends Error {
  readonly code: string;

  constructor(code: number) {
    super(codeName(code) ?? `${code}`);
    this.code = this.message;
  }
}

/** admission.wasm as it ships. */
export class AdmissionModule {
  readonly #instance: ModuleInstance;

  private constructor(instance: ModuleInstance) {
    this.#instance = instance;
  }

  /** Loads it. */
  static async load(): Promise<AdmissionModule> {
    const module = await WebAssembly.compile(new Uint8Array(readFileSync(WASM)));
    const kind = { file: "admission.wasm", version: ADMISSION_ABI_VERSION };
    return new AdmissionModule(await ModuleInstance.of(module, kind));
  }

  /** The name of a peer's record. */
  peerName(key: Uint8Array, domain: string): string {
    return text(this.#derive({ type: "PeerName", key, domain }));
  }

  /** The name of the record of a network's authority. */
  authorityName(domain: string): string {
    return text(this.#derive({ type: "AuthorityName", domain }));
  }

  /** The line of a zone file. */
  zoneLine(name: string, ttl_s: number, value: Uint8Array): string {
    return text(this.#derive({ type: "ZoneLine", name, ttl_s, value }));
  }

  /** A query for a name. */
  query(name: string): { id: number; message: Uint8Array } {
    const id = randomBytes(2).readUInt16BE();
    return { id, message: this.#derive({ type: "Query", id, name }) };
  }

  /** What a response says. */
  response(id: number, name: string, is_datagram: boolean, message: Uint8Array): AdmissionOutcome {
    const answer = this.#verify({ type: "Response", id, name, is_datagram, message });
    const [item] = readItems(answer);
    if (item === undefined) throw new Error("a response has no outcome");
    return admissionOutcomeCodec.decode(item);
  }

  /** A signed update of a zone. */
  update(zone: string, key: TsigKey, changes: readonly Change[], now_s: number): Update {
    const id = randomBytes(2).readUInt16BE();
    const writer = new Writer();
    for (const { name, value } of changes) writer.text(name).bytes(value ?? new Uint8Array());
    const { name: key_name, secret } = key;
    const request = { id, zone, key_name, secret, now_s, ttl_s: 60, changes: writer.copy() };
    const made = this.#derive({ type: "Update", ...request });
    return { id, key, mac: made.slice(0, 32), message: made.slice(32) };
  }

  /** Throws unless the response says that the update was made. */
  checkUpdated({ id, key, mac }: Update, now_s: number, message: Uint8Array): void {
    this.#verify({ type: "Updated", id, key_name: key.name, secret: key.secret, mac, now_s, message });
  }

  #derive(request: AdmissionDerive): Uint8Array {
    const writer = new Writer();
    admissionDeriveCodec.encode(writer, request);
    return resultOf(this.#instance.ask("derive", writer));
  }

  #verify(request: AdmissionVerify): Uint8Array {
    const writer = new Writer();
    admissionVerifyCodec.encode(writer, request);
    return resultOf(this.#instance.ask("verify", writer));
  }
}

/** The values of an outcome, in hexadecimal digits and in order. */
export function valuesOf(outcome: AdmissionOutcome): string[] {
  if (outcome.type !== "Found") return [];
  const reader = new Reader(outcome.values);
  const values: string[] = [];
  while (!reader.isEmpty) values.push(Buffer.from(reader.bytes()).toString("hex"));
  return values.sort();
}

function resultOf(answer: Reader): Uint8Array {
  const status = answer.u16();
  if (status !== 0) throw new Refusal(status);
  return answer.rest();
}

function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
