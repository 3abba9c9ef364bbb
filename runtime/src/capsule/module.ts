import { CAPSULE_ABI_VERSION, encodeReplicaConfig, type ReplicaConfig } from "../codec/capsule.ts";
import { MeshError } from "../codec/code.ts";
import { fromUtf8, type Reader, Writer } from "../codec/field.ts";
import { ModuleInstance } from "../driver/instance.ts";

const KIND = { file: "capsule.wasm", version: CAPSULE_ABI_VERSION };

const DERIVE_SERVER = 1;
const VERIFY_METADATA = 1;
const VERIFY_RECORD = 2;

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

  /** The public key with which a replica of this seed signs. */
  deriveServer(seed: Uint8Array): Uint8Array {
    return this.#ask("derive", new Writer().u8(DERIVE_SERVER).raw(seed)).take(32);
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
   * Verifies that a record, its header and body as `Read` gives them, has this name and was written by somebody whom the
   * metadata names; the proof begins with a signature.
   */
  verifyRecord(signed: Uint8Array, name: Uint8Array, record: Uint8Array, proof: Uint8Array): void {
    const input = new Writer().u8(VERIFY_RECORD).bytes(signed).raw(name).bytes(record).bytes(proof);
    this.#ask("verify", input).finish();
  }

  #ask(family: "derive" | "verify", input: Writer): Reader {
    const reader = this.#instance.ask(family, input);
    const status = reader.u16();
    if (status !== 0) throw new MeshError(status, `${new MeshError(status).message}, at ${reader.u32()}`);
    return reader;
  }
}
