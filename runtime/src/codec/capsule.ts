import { ItemCodec } from "./batch.ts";
import { CborEncoder } from "./cbor.ts";
import { bytes, flag, Reader, u16, u32, Writer } from "./field.ts";

/** Version of the boundary of capsule.wasm, returned by its export `abi_version`. */
export const CAPSULE_ABI_VERSION = 0x0001_0001;

/** What a host tells a capsule module; the sentences are those of `guest/codec/src/capsule.rs`. */
export type CapsuleInput =
  /** Somebody sends a request to the replica; answered by `Respond`. */
  | { type: "Request"; request: number; message: Uint8Array }
  /** Answer to `StoreGet`: a value for each key, in their order. */
  | { type: "StoreValues"; tag: number; ok: boolean; values: Uint8Array }
  /** Answer to `StoreScan`: the keys, in their order. */
  | { type: "StoreKeys"; tag: number; ok: boolean; keys: Uint8Array }
  /** Answer to `StoreCommit`. */
  | { type: "StoreCommitted"; tag: number; ok: boolean };

/** What a capsule module asks of its host. Bytes are views. */
export type CapsuleOutput =
  /** Answer a request. */
  | { type: "Respond"; request: number; response: Uint8Array }
  /** Read the values of keys; answered by `StoreValues`. */
  | { type: "StoreGet"; tag: number; keys: Uint8Array }
  /** Read at most `limit` keys with `start <= key < end`, in order; answered by `StoreKeys`. */
  | { type: "StoreScan"; tag: number; start: Uint8Array; end: Uint8Array; limit: number }
  /** Apply all operations or none, after all commits before; answered by `StoreCommitted`. */
  | { type: "StoreCommit"; tag: number; durable: boolean; operations: Uint8Array }
  /** An input of this batch was refused; `input` is its position. */
  | { type: "Refused"; input: number; code: number };

/** The codec of inputs of a capsule module. */
export const capsuleInputCodec: ItemCodec<CapsuleInput> = /* @__PURE__ */ new ItemCodec<CapsuleInput>({
  Request: [1, { request: u32, message: bytes }],
  StoreValues: [2, { tag: u32, ok: flag, values: bytes }],
  StoreKeys: [3, { tag: u32, ok: flag, keys: bytes }],
  StoreCommitted: [4, { tag: u32, ok: flag }],
});

/** The codec of outputs of a capsule module. */
export const capsuleOutputCodec: ItemCodec<CapsuleOutput> = /* @__PURE__ */ new ItemCodec<CapsuleOutput>({
  Respond: [1, { request: u32, response: bytes }],
  StoreGet: [2, { tag: u32, keys: bytes }],
  StoreScan: [3, { tag: u32, start: bytes, end: bytes, limit: u32 }],
  StoreCommit: [4, { tag: u32, durable: flag, operations: bytes }],
  Refused: [34, { input: u32, code: u16 }],
});

/** What a replica is created with. */
export interface ReplicaConfig {
  /** The seed of the key that the replica signs with, 32 bytes. Secret. */
  readonly seed: Uint8Array;
  /** Bytes of the store that it remembers. */
  readonly cache: number;
  /** Bytes of mirrors of readers' caches. */
  readonly mirrors: number;
}

const VERSION = 1;
const REPLICA = 1;

/** Encodes what `create` of a capsule module takes. */
export function encodeReplicaConfig({ seed, cache, mirrors }: ReplicaConfig): Uint8Array {
  const encoder = new CborEncoder().array(5).uint(VERSION).uint(REPLICA);
  return encoder.bytes(seed).uint(cache).uint(mirrors).finish();
}

/** The keys of a `StoreGet` or `StoreKeys`, as views. */
export function readKeys(encoded: Uint8Array): Uint8Array[] {
  const reader = new Reader(encoded);
  const keys: Uint8Array[] = [];
  while (!reader.isEmpty) keys.push(reader.bytes());
  return keys;
}

/** Encodes the keys of a `StoreKeys`. */
export function writeKeys(keys: readonly Uint8Array[]): Uint8Array {
  const writer = new Writer();
  for (const key of keys) writer.bytes(key);
  return writer.copy();
}

/** Encodes the values of a `StoreValues`; a key that has none is `undefined`. */
export function writeValues(values: readonly (Uint8Array | undefined)[]): Uint8Array {
  const writer = new Writer();
  for (const value of values) {
    writer.u8(value === undefined ? 0 : 1);
    if (value !== undefined) writer.bytes(value);
  }
  return writer.copy();
}
