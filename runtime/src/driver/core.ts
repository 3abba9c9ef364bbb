import { MeshError } from "../codec/code.ts";
import { type Config, encodeConfig } from "../codec/config.ts";
import { fromUtf8, Reader, Writer } from "../codec/field.ts";
import { ABI_VERSION } from "../codec/index.ts";

interface CoreExports {
  readonly memory: WebAssembly.Memory;
  abi_version(): number;
  alloc(length: number): number;
  free(pointer: number, length: number): void;
  create(pointer: number, length: number): number;
  step(handle: number, pointer: number, length: number): number;
  destroy(handle: number): void;
  derive(pointer: number, length: number): number;
  verify(pointer: number, length: number): number;
}

/** The buffer for inputs starts with this size: one frame and its header. */
const FIRST_INPUT = 128 * 1024;
/** An input buffer beyond this size is given back after use: bursts are rare and memory is shared. */
const KEEP_INPUT = 1024 * 1024;

const DERIVE_IDENTITY = 1;
const DERIVE_OWNER = 2;
const DERIVE_GRANT = 3;
const DERIVE_NETWORK = 4;
const VERIFY_GRANT = 1;

/** Who a seed is in a network. */
export interface Identity {
  /** The peer id. */
  readonly id: Uint8Array;
  /** The public key with a proof that only the seed makes, 64 bytes. */
  readonly knownKey: Uint8Array;
}

/** What an owner grants. */
export interface GrantTerms {
  /** The peer who may serve the name. */
  readonly peer: Uint8Array;
  /** When it was signed, in milliseconds since 1970. */
  readonly issued_ms: number;
  /** When it expires, in milliseconds since 1970. */
  readonly expires_ms: number;
  /** The name. */
  readonly name: string;
  /** Peers whose grants for the name count no more unless they are issued later, 32 bytes each. */
  readonly revoked: Uint8Array;
}

/** What a grant says. */
export interface GrantInfo extends GrantTerms {
  /** Public key of the owner who signed it. */
  readonly owner: Uint8Array;
}

/** One instance of core.wasm: its memory, and the nodes in it by their handles. */
export class Core {
  readonly #exports: CoreExports;
  #input = 0;
  #inputSize = 0;

  private constructor(instance: WebAssembly.Instance) {
    this.#exports = instance.exports as unknown as CoreExports;
    const version = this.#exports.abi_version();
    if (version !== ABI_VERSION) {
      throw new MeshError(
        "BadConfig",
        `core.wasm has version ${version} of the boundary, this package ${ABI_VERSION}: install them together`,
      );
    }
  }

  /** Makes an instance of its own: a trap in it reaches no other. */
  static async instantiate(module: WebAssembly.Module): Promise<Core> {
    return new Core(await WebAssembly.instantiate(module, {}));
  }

  /** Creates a node and returns its handle. */
  create(config: Config): number {
    const encoded = encodeConfig(config);
    const handle = this.#exports.create(this.#place(encoded), encoded.length) >>> 0;
    this.#wipe(encoded.length);
    encoded.fill(0);
    if (handle === 0) {
      throw new MeshError(
        "BadConfig",
        "the core refuses the configuration: check network, addresses and bootstrap",
      );
    }
    return handle;
  }

  /** Feeds a batch of inputs and returns the batch of outputs, in a buffer of its own. A trap throws. */
  step(handle: number, batch: Uint8Array): Uint8Array<ArrayBuffer> {
    const header = this.#exports.step(handle, this.#place(batch), batch.length);
    return this.#copyOut(header);
  }

  /** Ends a node. */
  destroy(handle: number): void {
    this.#exports.destroy(handle);
  }

  /** Size of the instance's memory, in bytes. */
  get memoryBytes(): number {
    return this.#exports.memory.buffer.byteLength;
  }

  /** The peer id that a seed has in a network, and what spares the next call and `create` to compute its public key. */
  deriveIdentity(seed: Uint8Array, network: string, knownKey: Uint8Array): Identity {
    const input = new Writer().u8(DERIVE_IDENTITY).raw(seed).text(network).bytes(knownKey);
    const reader = this.#ask("derive", input);
    return { id: reader.take(32), knownKey: reader.take(64) };
  }

  /** The public key of the owner whose secret seed this is. */
  deriveOwner(seed: Uint8Array, network: string): Uint8Array {
    return this.#ask("derive", new Writer().u8(DERIVE_OWNER).raw(seed).text(network)).take(32);
  }

  /** Signs a grant: `peer` may serve `name` until it expires. */
  deriveGrant(ownerSeed: Uint8Array, network: string, terms: GrantTerms): Uint8Array {
    const input = new Writer().u8(DERIVE_GRANT).raw(ownerSeed).text(network);
    input
      .text(terms.name)
      .raw(terms.peer)
      .u64(BigInt(Math.trunc(terms.issued_ms)))
      .u64(BigInt(Math.trunc(terms.expires_ms)))
      .bytes(terms.revoked);
    return this.#ask("derive", input).rest();
  }

  /** The id of a network. */
  deriveNetwork(network: string): Uint8Array {
    return this.#ask("derive", new Writer().u8(DERIVE_NETWORK).text(network)).take(32);
  }

  /** Verifies a grant and returns what it says. */
  verifyGrant(grant: Uint8Array, network: string, now_ms: number): GrantInfo {
    const input = new Writer()
      .u8(VERIFY_GRANT)
      .bytes(grant)
      .text(network)
      .u64(BigInt(Math.trunc(now_ms)));
    const reader = this.#ask("verify", input);
    const owner = reader.take(32);
    const peer = reader.take(32);
    const [issued_ms, expires_ms] = [Number(reader.u64()), Number(reader.u64())];
    return { owner, peer, issued_ms, expires_ms, name: fromUtf8(reader.bytes()), revoked: reader.bytes() };
  }

  #ask(family: "derive" | "verify", input: Writer): Reader {
    const bytes = input.written();
    const header = this.#exports[family](this.#place(bytes), bytes.length);
    this.#wipe(bytes.length);
    bytes.fill(0);
    const reader = new Reader(this.#copyOut(header));
    const status = reader.u16();
    if (status !== 0) throw new MeshError(status);
    return reader;
  }

  /** Writes bytes into the input buffer, which grows when they do not fit. */
  #place(bytes: Uint8Array): number {
    if (bytes.length > this.#inputSize || this.#inputSize > KEEP_INPUT) {
      const size = Math.max(FIRST_INPUT, 2 ** Math.ceil(Math.log2(Math.max(bytes.length, 1))));
      if (this.#inputSize !== 0) this.#exports.free(this.#input, this.#inputSize);
      this.#inputSize = 0;
      this.#input = this.#exports.alloc(size) >>> 0;
      this.#inputSize = size;
    }
    new Uint8Array(this.#exports.memory.buffer, this.#input, bytes.length).set(bytes);
    return this.#input;
  }

  /** Removes secrets from the input buffer. */
  #wipe(length: number): void {
    new Uint8Array(this.#exports.memory.buffer, this.#input, length).fill(0);
  }

  /** Copies what a header `{pointer u32, length u32}` names; the memory may have grown since the last view. */
  #copyOut(header: number): Uint8Array<ArrayBuffer> {
    const buffer = this.#exports.memory.buffer;
    const view = new DataView(buffer, header >>> 0, 8);
    return new Uint8Array(buffer, view.getUint32(0, true), view.getUint32(4, true)).slice();
  }
}
