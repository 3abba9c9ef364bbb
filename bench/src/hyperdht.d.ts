/** The part of hyperdht 6.34.0 that the benchmarks use; the package has no types. */
declare module "hyperdht" {
  interface Address {
    readonly host: string;
    readonly port: number;
  }

  interface KeyPair {
    readonly publicKey: Uint8Array;
    readonly secretKey: Uint8Array;
  }

  interface Query<T> extends AsyncIterable<T> {
    finished(): Promise<void>;
  }

  interface Options {
    readonly bootstrap?: readonly Address[];
    readonly ephemeral?: boolean;
    readonly firewalled?: boolean;
    readonly host?: string;
    /** Most requests of one query in flight. */
    readonly concurrency?: number;
    /** Most requests of a node in flight. */
    readonly maxWindow?: number;
    /** Most entries of each of its tables; of values half as many. */
    readonly maxSize?: number;
  }

  export default class HyperDHT {
    constructor(options?: Options);
    static bootstrapper(port: number, host: string, options?: Options): HyperDHT;
    static keyPair(): KeyPair;
    readonly stats: { readonly requests: { readonly total: number } };
    fullyBootstrapped(): Promise<void>;
    address(): Address;
    destroy(options?: { readonly force?: boolean }): Promise<void>;
    findNode(target: Uint8Array): Query<unknown>;
    announce(target: Uint8Array, keyPair: KeyPair, relays: readonly Address[]): Query<unknown>;
    lookup(target: Uint8Array): Query<{ readonly peers: readonly unknown[] }>;
    mutablePut(keyPair: KeyPair, value: Uint8Array): Promise<unknown>;
    mutableGet(publicKey: Uint8Array): Promise<{ readonly value: Uint8Array } | null>;
    immutablePut(value: Uint8Array): Promise<{ readonly hash: Uint8Array }>;
    immutableGet(target: Uint8Array): Promise<{ readonly value: Uint8Array } | null>;
  }
}
