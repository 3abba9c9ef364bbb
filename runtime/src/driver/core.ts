import { codeName, MeshError } from "../codec/code.ts";
import { type Config, encodeConfig } from "../codec/config.ts";
import { fromUtf8, type Reader, Writer } from "../codec/field.ts";
import { ABI_VERSION, REFUSED } from "../codec/index.ts";
import { ModuleInstance } from "./instance.ts";

const KIND = { file: "core.wasm", version: ABI_VERSION };

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

/** One instance of core.wasm, and the nodes in it by their handles. */
export class Core {
  readonly #instance: ModuleInstance;

  private constructor(instance: ModuleInstance) {
    this.#instance = instance;
  }

  /** Makes an instance of its own: a trap in it reaches no other. */
  static async instantiate(module: WebAssembly.Module): Promise<Core> {
    return new Core(await ModuleInstance.of(module, KIND));
  }

  /** Creates a node and returns its handle. */
  create(config: Config): number {
    const handle = this.#instance.create(encodeConfig(config));
    if (handle >= REFUSED) throw refusal(config, handle - REFUSED);
    return handle;
  }

  /** Feeds a batch of inputs and returns the batch of outputs, in a buffer of its own. A trap throws. */
  step(handle: number, batch: Uint8Array): Uint8Array<ArrayBuffer> {
    return this.#instance.step(handle, batch);
  }

  /** Ends a node. */
  destroy(handle: number): void {
    this.#instance.destroy(handle);
  }

  /** Size of the instance's memory, in bytes. */
  get memoryBytes(): number {
    return this.#instance.memoryBytes;
  }

  /** The peer id that a seed has in a network, and what spares the next call and `create` to compute its public key. */
  deriveIdentity(seed: Uint8Array, network: string, knownKey: Uint8Array): Identity {
    const input = new Writer().u8(DERIVE_IDENTITY).raw(seed).text(network).bytes(knownKey);
    try {
      const reader = this.#ask("derive", input);
      return { id: reader.take(32), knownKey: reader.take(64) };
    } catch (cause) {
      // The name was checked before.
      if (!network.includes("@")) throw cause;
      throw new MeshError("BadConfig", "this core knows no closed networks: core-closed.wasm does", {
        cause,
      });
    }
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
    const reader = this.#instance.ask(family, input);
    const status = reader.u16();
    if (status !== 0) throw new MeshError(status);
    return reader;
  }
}

/** The error for a configuration that the core refuses. */
function refusal({ addresses }: Config, code: number): MeshError {
  switch (codeName(code)) {
    case "BadConfig":
      return new MeshError(
        "BadConfig",
        "the core refuses the configuration: check network, addresses and bootstrap",
      );
    case "BadAddress":
      return new MeshError(
        "BadAddress",
        `${addresses.join(", ")}: an address is like wss://node.example/.mesh`,
      );
    case "ForbiddenAddress":
      return new MeshError(
        "ForbiddenAddress",
        `${addresses.join(", ")} is private: give an address at which others reach this node, or set allowPrivate if that is meant`,
      );
    default:
      return new MeshError(code);
  }
}
