import { InputBatch, readItems } from "../codec/batch.ts";
import {
  CAPSULE_ABI_VERSION,
  type CapsuleInput,
  encodeExporterConfig,
  encodeImporterConfig,
  encodeReplicaConfig,
  encodeVerifierConfig,
  type ReplicaConfig,
} from "../codec/capsule.ts";
import {
  type ClientConfig,
  encodeClientConfig,
  type ModuleInput,
  moduleInputCodec,
  moduleOutputCodec,
} from "../codec/client.ts";
import { MeshError } from "../codec/code.ts";
import { fromUtf8, type Reader, Writer } from "../codec/field.ts";
import { fromHex, toHex } from "../codec/hex.ts";
import { ModuleInstance } from "../driver/instance.ts";
import { randomBytes } from "../driver/random.ts";
import { type Authorship, decodeHeader, errorAt, type RecordHeader, readAuthorship } from "./record.ts";

const KIND = { file: "capsule.wasm", version: CAPSULE_ABI_VERSION };

const DERIVE_KEY = 1;
const DERIVE_READER = 2;
const DERIVE_METADATA = 3;
const VERIFY_METADATA = 1;
const VERIFY_RECORD = 2;
const VERIFY_PROOF = 3;
/** Length of the public key to which the key of an epoch is sealed. */
export const READER_KEY_BYTES = 1216;
const SALT_BYTES = 16;
/** Most bytes of an export file that are given to the module at a time. */
const CHUNK_BYTES: number = 1024 * 1024;

/** What the signed metadata of a capsule says. */
export interface CapsuleInfo {
  /** The capsule's name, 32 bytes. */
  readonly name: Uint8Array;
  /** Which hash function gives names. */
  readonly hash: "blake3" | "sha256";
  /** Whether bodies are sealed for readers whom the owner grants the key to. */
  readonly sealed: boolean;
  /** When the owner says it was made, in milliseconds since 1970. */
  readonly created_ms: number;
  /** The owner's public key. */
  readonly owner: Uint8Array;
  /** The public keys of those who may write from the beginning, without the owner, 32 bytes each. */
  readonly writers: Uint8Array;
  /** What people call it. */
  readonly description: string;
}

/** What a capsule is to be. */
export interface CapsulePlan {
  /** Secret seed of the owner, 64 hex digits. */
  readonly seed: string;
  /** What people call it; at most 1024 bytes in UTF-8. */
  readonly description?: string | undefined;
  /** Which hash function gives names; BLAKE3 unless given. */
  readonly hash?: "blake3" | "sha256" | undefined;
  /** Whether only those read it whom the owner grants the key to; everybody does unless given. */
  readonly sealed?: boolean | undefined;
  /** Public keys of others who may write from the beginning, at most 16. */
  readonly writers?: readonly string[] | undefined;
  /** When it was made, in milliseconds since 1970; now unless given. */
  readonly created_ms?: number | undefined;
}

/** What a proof file proves. */
export interface ProofInfo extends Authorship {
  /** The capsule's name, 32 bytes. */
  readonly capsule: Uint8Array;
  /** The record's name, 64 hex digits. */
  readonly name: string;
  /** Its header. */
  readonly header: RecordHeader;
  /** Its body as it is stored, if it is in the file: sealed where not everybody reads. */
  readonly body: Uint8Array | undefined;
  /**
   * The records whose headers lead there: the first is signed by its writer, each points to the next one, and the last is the
   * record itself or points to it.
   */
  readonly path: readonly (RecordHeader & { readonly name: string })[];
}

/** What an export file holds. */
export interface ExportInfo {
  /** The capsule's name, 32 bytes. */
  readonly capsule: Uint8Array;
  /** How many records there are. */
  readonly records: number;
  /** How many records are pointed to and not there. */
  readonly holes: number;
}

/** One instance of capsule.wasm, and the replicas in it by their handles. */
export class CapsuleModule {
  readonly #instance: ModuleInstance;

  private constructor(instance: ModuleInstance) {
    this.#instance = instance;
  }

  /** Makes an instance of its own: a trap in it reaches no other. */
  static async instantiate(module: WebAssembly.Module): Promise<CapsuleModule> {
    return new CapsuleModule(await ModuleInstance.of(module, KIND));
  }

  /** Creates a replica and returns its handle. */
  createReplica(config: ReplicaConfig): number {
    const handle = this.#instance.create(encodeReplicaConfig(config));
    if (handle === 0) throw new MeshError("BadConfig", "capsule.wasm refuses the configuration of a replica");
    return handle;
  }

  /** Creates a client and returns its handle. */
  createClient(config: ClientConfig): number {
    const handle = this.#instance.create(encodeClientConfig(config));
    if (handle === 0) throw new MeshError("BadConfig", "capsule.wasm refuses the configuration of a client");
    return handle;
  }

  /** Creates what writes the export file of a capsule, and returns its handle. */
  createExporter(capsule: Uint8Array): number {
    return this.#instance.create(encodeExporterConfig(capsule));
  }

  /** Creates what stores an export file, and returns its handle. */
  createImporter(): number {
    return this.#instance.create(encodeImporterConfig());
  }

  /** Feeds a batch of inputs and returns the batch of outputs, in a buffer of its own. A trap throws. */
  step(handle: number, batch: Uint8Array): Uint8Array<ArrayBuffer> {
    return this.#instance.step(handle, batch);
  }

  /** Ends a replica, which wipes its key. */
  destroy(handle: number): void {
    this.#instance.destroy(handle);
  }

  /** Size of the instance's memory, in bytes. */
  get memoryBytes(): number {
    return this.#instance.memoryBytes;
  }

  /** The public key with which whoever has this seed signs: a replica, a writer or an owner. */
  deriveKey(seed: Uint8Array): Uint8Array {
    return this.#ask("derive", new Writer().u8(DERIVE_KEY).raw(seed)).take(32);
  }

  /** Verifies signed metadata and returns what it says. */
  verifyMetadata(signed: Uint8Array): CapsuleInfo {
    const reader = this.#ask("verify", new Writer().u8(VERIFY_METADATA).bytes(signed));
    const name = reader.take(32);
    const hash = reader.u8() === 1 ? "blake3" : "sha256";
    const sealed = reader.u8() === 1;
    const created_ms = Number(reader.u64());
    const [owner, writers] = [reader.take(32), reader.bytes()];
    return { name, hash, sealed, created_ms, owner, writers, description: fromUtf8(reader.bytes()) };
  }

  /**
   * Verifies that a record, its header and body as `Read` gives them, has this name and is proven by somebody whom the metadata
   * names, and returns who answers for it; the proof begins with a signature.
   */
  verifyRecord(signed: Uint8Array, name: Uint8Array, record: Uint8Array, proof: Uint8Array): Authorship {
    const input = new Writer().u8(VERIFY_RECORD).bytes(signed).raw(name).bytes(record).bytes(proof);
    const reader = this.#ask("verify", input);
    const authorship = readAuthorship(reader);
    reader.finish();
    return authorship;
  }

  /** The public key to which the owner grants the keys of epochs for whoever has this seed, in hex. */
  deriveReader(seed: Uint8Array): string {
    return toHex(this.#ask("derive", new Writer().u8(DERIVE_READER).raw(seed)).take(READER_KEY_BYTES));
  }

  /** Signs the metadata of a new capsule, whose hash is its name. */
  signMetadata(plan: CapsulePlan): Uint8Array {
    const { seed, description = "", hash = "blake3", sealed = false, writers = [] } = plan;
    const input = new Writer().u8(DERIVE_METADATA).raw(fromHex(seed, 32, "seed"));
    input.u8(hash === "blake3" ? 1 : 2).u8(sealed ? 1 : 0);
    input.u64(BigInt(plan.created_ms ?? Date.now())).raw(randomBytes(SALT_BYTES));
    input.u32(32 * writers.length);
    for (const writer of writers) input.raw(fromHex(writer, 32, "the key of a writer"));
    return this.#ask("derive", input.text(description)).rest().slice();
  }

  /** Verifies a proof file and returns what it proves; whether the writer was revoked since it cannot tell. */
  verifyProof(file: Uint8Array): ProofInfo {
    const reader = this.#ask("verify", new Writer().u8(VERIFY_PROOF).bytes(file));
    const [capsule, name] = [reader.take(32), toHex(reader.take(32))];
    const header = decodeHeader(reader.bytes());
    const authorship = readAuthorship(reader);
    const body = reader.u8() === 1 ? reader.bytes() : undefined;
    const path = Array.from({ length: reader.u16() }, () => {
      const name = toHex(reader.take(32));
      return { ...decodeHeader(reader.bytes()), name };
    });
    return { capsule, name, header, ...authorship, body, path };
  }

  /** Verifies an export file of any length while it comes, and returns what it holds. Nobody is asked. */
  async verifyExport(file: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<ExportInfo> {
    const handle = this.#instance.create(encodeVerifierConfig());
    try {
      for await (const chunk of file) {
        for (let at = 0; at < chunk.length; at += CHUNK_BYTES) {
          this.#feed(handle, { type: "Chunk", bytes: chunk.subarray(at, at + CHUNK_BYTES) });
        }
      }
      const info = this.#feed(handle, { type: "End" });
      if (info === undefined) throw new MeshError("BadFile");
      return info;
    } finally {
      this.#instance.destroy(handle);
    }
  }

  #feed(handle: number, input: CapsuleInput): ExportInfo | undefined {
    const batch = new InputBatch<ModuleInput>(moduleInputCodec);
    batch.push(input);
    for (const item of readItems(this.#instance.step(handle, batch.finish(0)))) {
      const output = moduleOutputCodec.decode(item);
      if (output.type === "Verified") return output;
      if (output.type === "Damaged") throw errorAt(output.code, output.at);
    }
    return undefined;
  }

  #ask(family: "derive" | "verify", input: Writer): Reader {
    const reader = this.#instance.ask(family, input);
    const status = reader.u16();
    if (status !== 0) throw errorAt(status, reader.u32());
    return reader;
  }
}
