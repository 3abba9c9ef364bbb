import type { Layouts } from "./batch.ts";
import { CborEncoder } from "./cbor.ts";
import { bytes, bytes32, count, flag, Reader, time, u8, u16, u32, Writer } from "./field.ts";

/** Version of the boundary of capsule.wasm, returned by its export `abi_version`. */
export const CAPSULE_ABI_VERSION = 0x0001_0001;

/** What a host tells a capsule module; the sentences are those of `guest/codec/src/capsule.rs`. */
export type CapsuleInput =
  /** Somebody sends a request to the replica; answered by `Respond`. */
  | { type: "Request"; request: number; source: Uint8Array; message: Uint8Array }
  /** Answer to `StoreGet`: a value for each key, in their order. */
  | { type: "StoreValues"; tag: number; ok: boolean; values: Uint8Array }
  /** Answer to `StoreScan`: the keys, in their order. */
  | { type: "StoreKeys"; tag: number; ok: boolean; keys: Uint8Array }
  /** Answer to `StoreCommit`. */
  | { type: "StoreCommitted"; tag: number; ok: boolean }
  /** Answer to `Ask`; without `ok` there is none. */
  | { type: "Answered"; tag: number; ok: boolean; response: Uint8Array }
  /**
   * A replica is to come to hold the same as another one of a capsule; `entropy` is random and used once. Ends with `Synced`.
   */
  | { type: "Sync"; peer: Uint8Array; capsule: Uint8Array; entropy: Uint8Array }
  /** Which other replicas of a capsule there are, 32 bytes each, to which a replica pushes what writers store. */
  | { type: "Replicas"; capsule: Uint8Array; peers: Uint8Array }
  /** The next bytes of an export file, to a verifier or an importer; to the latter when it asks nothing. */
  | { type: "Chunk"; bytes: Uint8Array }
  /** The export file ends here; answered by `Verified` or `Damaged`. */
  | { type: "End" };

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
  /** Send a request to a replica, which answers it as it answers any other; answered by `Answered`. */
  | { type: "Ask"; tag: number; peer: Uint8Array; message: Uint8Array }
  /**
   * What came of `Sync`: 0 both hold the same, 1 they still differ, 2 one refused something (`code`, `at`), 3 there was no
   * answer; how many records and signatures came and went.
   */
  | {
      type: "Synced";
      peer: Uint8Array;
      capsule: Uint8Array;
      outcome: number;
      code: number;
      at: number;
      pulled: number;
      pushed: number;
    }
  /** The last item of a client's batch: step it again by this time; `Infinity` is never. */
  | { type: "Wake"; at_ms: number }
  /**
   * An export file is what the owner and the writers of this capsule have signed; so many records are in it, and so many that
   * these point to are not. What was to be written or stored of it, is.
   */
  | { type: "Verified"; capsule: Uint8Array; records: number; holes: number }
  /** An export file is none, or a replica does not give or take it; what is wrong first, and at which offset. That was all. */
  | { type: "Damaged"; code: number; at: number }
  /** The next bytes of an export file. */
  | { type: "Piece"; bytes: Uint8Array }
  /** An input of this batch was refused; `input` is its position. */
  | { type: "Refused"; input: number; code: number };

/** The layouts of inputs of a capsule module. */
export const CAPSULE_INPUTS: Layouts<CapsuleInput> = {
  Request: [1, { request: u32, source: bytes32, message: bytes }],
  StoreValues: [2, { tag: u32, ok: flag, values: bytes }],
  StoreKeys: [3, { tag: u32, ok: flag, keys: bytes }],
  StoreCommitted: [4, { tag: u32, ok: flag }],
  Answered: [5, { tag: u32, ok: flag, response: bytes }],
  Sync: [6, { peer: bytes32, capsule: bytes32, entropy: bytes32 }],
  Replicas: [7, { capsule: bytes32, peers: bytes }],
  Chunk: [8, { bytes }],
  End: [9, {}],
};

/** The layouts of outputs of a capsule module. */
export const CAPSULE_OUTPUTS: Layouts<CapsuleOutput> = {
  Respond: [1, { request: u32, response: bytes }],
  StoreGet: [2, { tag: u32, keys: bytes }],
  StoreScan: [3, { tag: u32, start: bytes, end: bytes, limit: u32 }],
  StoreCommit: [4, { tag: u32, durable: flag, operations: bytes }],
  Ask: [5, { tag: u32, peer: bytes32, message: bytes }],
  Synced: [
    6,
    { peer: bytes32, capsule: bytes32, outcome: u8, code: u16, at: u32, pulled: count, pushed: count },
  ],
  Wake: [7, { at_ms: time }],
  Verified: [8, { capsule: bytes32, records: count, holes: count }],
  Damaged: [9, { code: u16, at: count }],
  Piece: [10, { bytes }],
  Refused: [34, { input: u32, code: u16 }],
};

/** What a replica is created with. */
export interface ReplicaConfig {
  /** The seed of the key that the replica signs with, 32 bytes. Secret. */
  readonly seed: Uint8Array;
  /** Bytes of the store that it remembers. */
  readonly cache: number;
  /** Bytes of mirrors of readers' caches. */
  readonly mirrors: number;
  /** Keys of those whose capsules it holds, 32 bytes each; everybody's if there are none. */
  readonly owners: Uint8Array;
}

const VERSION = 1;
const REPLICA = 1;
const VERIFIER = 3;
const EXPORTER = 4;
const IMPORTER = 5;

/** Encodes what `create` of a capsule module takes. */
export function encodeReplicaConfig({ seed, cache, mirrors, owners }: ReplicaConfig): Uint8Array {
  const encoder = new CborEncoder().array(6).uint(VERSION).uint(REPLICA);
  return encoder.bytes(seed).uint(cache).uint(mirrors).bytes(owners).finish();
}

/** Encodes what `create` takes to make a verifier of one export file. */
export function encodeVerifierConfig(): Uint8Array {
  return new CborEncoder().array(2).uint(VERSION).uint(VERIFIER).finish();
}

/** Encodes what `create` takes to make an exporter, which asks one replica for all of a capsule and writes its export file. */
export function encodeExporterConfig(capsule: Uint8Array): Uint8Array {
  return new CborEncoder().array(3).uint(VERSION).uint(EXPORTER).bytes(capsule).finish();
}

/** Encodes what `create` takes to make an importer of one export file, which asks one replica to store it. */
export function encodeImporterConfig(): Uint8Array {
  return new CborEncoder().array(2).uint(VERSION).uint(IMPORTER).finish();
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
  const writer = new Writer(keys.reduce((length, key) => length + 4 + key.length, 0));
  for (const key of keys) writer.bytes(key);
  return writer.written();
}

/** Encodes the values of a `StoreValues`; a key that has none is `undefined`. */
export function writeValues(values: readonly (Uint8Array | undefined)[]): Uint8Array {
  const writer = new Writer(values.reduce((length, value) => length + 5 + (value?.length ?? 0), 0));
  for (const value of values) {
    writer.u8(value === undefined ? 0 : 1);
    if (value !== undefined) writer.bytes(value);
  }
  return writer.written();
}
