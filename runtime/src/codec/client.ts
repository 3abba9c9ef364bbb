import { ItemCodec } from "./batch.ts";
import { CAPSULE_INPUTS, CAPSULE_OUTPUTS, type CapsuleInput, type CapsuleOutput } from "./capsule.ts";
import { CborEncoder } from "./cbor.ts";
import { bytes, bytes32, count, flag, u16, u32 } from "./field.ts";
import { MAP_COMMANDS, MAP_REPLIES, type MapCommand, type MapReply } from "./map.ts";

/**
 * What an application asks of a client in capsule.wasm; the sentences are those of `guest/codec/src/client.rs`. `command`
 * numbers are the host's and return with the one reply to each. Names are 32 bytes each, one after the other.
 */
export type Command =
  /** Create the capsule of the metadata in the configuration; answered by `Done`. */
  | { type: "Create"; command: number }
  /** Begin to write: after this record, or where this writer was, if there is none; answered by `Ready`. */
  | { type: "Init"; command: number; after: Uint8Array }
  /** Write a record of each content; answered by `Written`. */
  | ({ type: "Write" } & Writing)
  /** Write one record of sub-records; answered by `Written`. */
  | ({ type: "Commit" } & Writing)
  /** Sign the last record that was written; answered by `Done`. */
  | { type: "Sign"; command: number }
  /** Change who writes and reads, in the next epoch or in this one; answered by `Written`. */
  | {
      type: "Govern";
      command: number;
      next: boolean;
      added: Uint8Array;
      revoked: Uint8Array;
      readers: Uint8Array;
    }
  /** Read records; answered by `Records`. */
  | { type: "Read"; command: number; names: Uint8Array }
  /** Ask which records are the newest; answered by `Fresh`. */
  | { type: "QueryFresh"; command: number }
  /** Read sub-records of a record, by their places; answered by `Parts`. */
  | { type: "ReadParts"; command: number; name: Uint8Array; indexes: Uint8Array }
  /** Ask how many sub-records records have; answered by `Counts`. */
  | { type: "CountParts"; command: number; names: Uint8Array }
  /** Make a file that proves a record, with its body or without; answered by `File`. */
  | { type: "Export"; command: number; name: Uint8Array; whole: boolean }
  /** Ask what the capsule is and who writes it; answered by `Described`. */
  | { type: "Describe"; command: number }
  /** Collect evidence that a writer has used a sequence number twice; answered by `Fork`. */
  | { type: "Accuse"; command: number; one: Uint8Array; other: Uint8Array };

/**
 * How records are written: beside the record before, each points to what shortens proofs (`shortcuts`), or the first one to
 * `pointers`; the last one is signed at once (`sign`) or later.
 */
export interface Writing {
  command: number;
  sign: boolean;
  shortcuts: boolean;
  pointers: Uint8Array;
  contents: Uint8Array;
}

/** What an application is told. A list of `results` has for each element `0 u16` and what is said there, or `code u16 | at u32`. */
export type Reply =
  /** A write quorum has stored it. */
  | { type: "Done"; command: number }
  /** Writing can begin. */
  | { type: "Ready"; command: number; writer: number; epoch: number; sequence: number; after: Uint8Array }
  /** A write quorum has stored these records. */
  | { type: "Written"; command: number; names: Uint8Array }
  /** Of each record its header and what it holds. */
  | { type: "Records"; command: number; results: Uint8Array }
  /** The newest records, the answers that count, those that do not, and pairs of records with one sequence number. */
  | {
      type: "Fresh";
      command: number;
      heads: Uint8Array;
      answers: Uint8Array;
      refused: Uint8Array;
      forks: Uint8Array;
    }
  /** Of each sub-record its content. */
  | { type: "Parts"; command: number; results: Uint8Array }
  /** Of each record how many sub-records it has. */
  | { type: "Counts"; command: number; results: Uint8Array }
  /** A file. */
  | { type: "File"; command: number; file: Uint8Array }
  /** Signed metadata, who writes now, the epoch and how many epoch records there are. */
  | {
      type: "Described";
      command: number;
      metadata: Uint8Array;
      writers: Uint8Array;
      epoch: number;
      records: number;
    }
  /** Evidence of a fork, verified: of each record its header and a proof that begins with a signature. */
  | {
      type: "Fork";
      command: number;
      header: Uint8Array;
      proof: Uint8Array;
      other_header: Uint8Array;
      other_proof: Uint8Array;
    }
  /** It failed. */
  | { type: "Failed"; command: number; code: number; at: number };

const writing = { command: u32, sign: flag, shortcuts: flag, pointers: bytes, contents: bytes } as const;

/** What capsule.wasm takes: a replica inputs, a client also commands, those of the map in its capsule too. */
export type ModuleInput = CapsuleInput | Command | MapCommand;

/** What capsule.wasm gives: a client also replies. */
export type ModuleOutput = CapsuleOutput | Reply | MapReply;

/** The codec of what capsule.wasm takes. */
export const moduleInputCodec: ItemCodec<ModuleInput> = /* @__PURE__ */ new ItemCodec<ModuleInput>({
  ...CAPSULE_INPUTS,
  ...MAP_COMMANDS,
  Create: [64, { command: u32 }],
  Init: [65, { command: u32, after: bytes }],
  Write: [66, writing],
  Commit: [67, writing],
  Sign: [68, { command: u32 }],
  Govern: [69, { command: u32, next: flag, added: bytes, revoked: bytes, readers: bytes }],
  Read: [70, { command: u32, names: bytes }],
  QueryFresh: [72, { command: u32 }],
  ReadParts: [73, { command: u32, name: bytes32, indexes: bytes }],
  CountParts: [74, { command: u32, names: bytes }],
  Export: [75, { command: u32, name: bytes32, whole: flag }],
  Describe: [76, { command: u32 }],
  Accuse: [77, { command: u32, one: bytes32, other: bytes32 }],
});

/** The codec of what capsule.wasm gives. */
export const moduleOutputCodec: ItemCodec<ModuleOutput> = /* @__PURE__ */ new ItemCodec<ModuleOutput>({
  ...CAPSULE_OUTPUTS,
  ...MAP_REPLIES,
  Done: [64, { command: u32 }],
  Ready: [65, { command: u32, writer: u16, epoch: u32, sequence: count, after: bytes }],
  Written: [66, { command: u32, names: bytes }],
  Records: [67, { command: u32, results: bytes }],
  Fresh: [69, { command: u32, heads: bytes, answers: bytes, refused: bytes, forks: bytes }],
  Parts: [70, { command: u32, results: bytes }],
  Counts: [71, { command: u32, results: bytes }],
  File: [72, { command: u32, file: bytes }],
  Described: [73, { command: u32, metadata: bytes, writers: bytes, epoch: u32, records: u32 }],
  Fork: [74, { command: u32, header: bytes, proof: bytes, other_header: bytes, other_proof: bytes }],
  Failed: [75, { command: u32, code: u16, at: u32 }],
});

/** What a client is created with. */
export interface ClientConfig {
  /** The capsule. */
  readonly capsule: Uint8Array;
  /** Its signed metadata; empty if the servers are to be asked. */
  readonly metadata: Uint8Array;
  /** Public keys of its servers, 32 bytes each. */
  readonly servers: Uint8Array;
  /** The seed of a writer or reader, 32 bytes or none. Secret. */
  readonly seed: Uint8Array;
  /** How many servers must have stored something before it counts as written. */
  readonly writeQuorum: number;
  /** How many servers must have said which records are the newest. */
  readonly readQuorum: number;
  /**
   * Before a second server is asked, before a request is given up, for how long a server that failed is left alone, before a
   * command is given up, in milliseconds.
   */
  readonly timing: readonly [number, number, number, number];
  /** Fresh random bytes. Secret. */
  readonly entropy: Uint8Array;
}

const VERSION = 1;
const CLIENT = 2;

/** Encodes what `create` of a capsule module takes to make a client. */
export function encodeClientConfig(config: ClientConfig): Uint8Array {
  const encoder = new CborEncoder().array(13).uint(VERSION).uint(CLIENT);
  encoder.bytes(config.capsule).bytes(config.metadata).bytes(config.servers).bytes(config.seed);
  encoder.uint(config.writeQuorum).uint(config.readQuorum);
  for (const wait of config.timing) encoder.uint(wait);
  return encoder.bytes(config.entropy).finish();
}
