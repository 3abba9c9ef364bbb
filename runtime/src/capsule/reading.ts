import { readKeys } from "../codec/capsule.ts";
import type { Reply } from "../codec/client.ts";
import type { MeshError } from "../codec/code.ts";
import { Reader } from "../codec/field.ts";
import { toHex } from "../codec/hex.ts";
import { type Authorship, decodeHeader, errorAt, type RecordHeader, readAuthorship } from "./record.ts";

/** A record that was read: proven and opened. */
export interface CapsuleRecord extends RecordHeader, Authorship {
  /** Its name, 64 hex digits. */
  readonly name: string;
  /** Its content; of an epoch record the body. Empty if it has sub-records. */
  readonly content: Uint8Array;
  /** Its sub-records, if it has such. */
  readonly subrecords: readonly Uint8Array[];
}

/** A record that no proven record points to, signed by the writer that it names. */
export interface CapsuleHead extends RecordHeader {
  /** Its name, 64 hex digits. */
  readonly name: string;
}

/** The newest records of a capsule. */
export interface CapsuleHeads {
  /** The heads, sorted by name: those that some server named and proved, without those that another one knows to be old. */
  readonly heads: readonly CapsuleHead[];
  /** Whether all servers whose answers count named the same. */
  readonly agreed: boolean;
  /** The keys of the servers whose answers count, and their times. */
  readonly answers: readonly { readonly server: string; readonly time_ms: number }[];
  /** The servers whose answers do not count, and why: `RolledBack` for one that knows less than this client has seen. */
  readonly refused: readonly { readonly server: string; readonly error: MeshError }[];
  /** Pairs of records in which a writer has used one sequence number twice, both signed by it, as far as this client has seen. */
  readonly forks: readonly (readonly [string, string])[];
}

/** What a capsule is, and who writes it now. */
export interface CapsuleDescription {
  /** The signed metadata. */
  readonly metadata: Uint8Array;
  /** Who writes: the number and the public key of each, the owner included, whose number is 0. */
  readonly writers: readonly { readonly number: number; readonly key: string }[];
  /** The present epoch. */
  readonly epoch: number;
  /** How many epoch records there are. */
  readonly epochRecords: number;
}

type Of<T extends Reply["type"]> = Extract<Reply, { type: T }>;

/** The names in a reply. */
export function readNames(bytes: Uint8Array): string[] {
  const reader = new Reader(bytes);
  const names: string[] = [];
  while (!reader.isEmpty) names.push(toHex(reader.take(32)));
  return names;
}

/** Reads of each element what is said there, or why there is nothing. */
export function readResults<T>(
  bytes: Uint8Array,
  read: (reader: Reader, index: number) => T,
): (T | MeshError)[] {
  const reader = new Reader(bytes);
  const results: (T | MeshError)[] = [];
  while (!reader.isEmpty) {
    const code = reader.u16();
    results.push(code === 0 ? read(reader, results.length) : errorAt(code, reader.u32()));
  }
  return results;
}

const PARTS = 2;

/** Reads a record of this name. */
export function readRecord(reader: Reader, name: string): CapsuleRecord {
  const header = { ...decodeHeader(reader.bytes()), ...readAuthorship(reader) };
  const kind = reader.u8();
  const bytes = reader.bytes();
  if (kind !== PARTS) return { ...header, name, content: bytes.slice(), subrecords: [] };
  const subrecords = readKeys(bytes).map((part) => part.slice());
  return { ...header, name, content: new Uint8Array(), subrecords };
}

/** Reads which records are the newest; `servers` are the keys of all servers, by their numbers. */
export function readFresh(reply: Of<"Fresh">, servers: readonly string[]): CapsuleHeads {
  const heads: CapsuleHead[] = [];
  const reader = new Reader(reply.heads);
  while (!reader.isEmpty) {
    const name = toHex(reader.take(32));
    heads.push({ ...decodeHeader(reader.bytes()), name });
  }
  const answers: { server: string; time_ms: number }[] = [];
  const named = new Set<string>();
  const said = new Reader(reply.answers);
  while (!said.isEmpty) {
    const server = servers[said.u16()] ?? "";
    answers.push({ server, time_ms: Number(said.u64()) });
    named.add(toHex(said.bytes()));
  }
  const refused: { server: string; error: MeshError }[] = [];
  const no = new Reader(reply.refused);
  while (!no.isEmpty) {
    const server = servers[no.u16()] ?? "";
    refused.push({ server, error: errorAt(no.u16(), no.u32()) });
  }
  const forked = readNames(reply.forks);
  const forks = forked.flatMap((one, index) =>
    index % 2 === 0 ? [[one, forked[index + 1] ?? ""] as const] : [],
  );
  return { heads, agreed: named.size <= 1, answers, refused, forks };
}

/** Reads what a capsule is. */
export function readDescription(reply: Of<"Described">): CapsuleDescription {
  const writers: { number: number; key: string }[] = [];
  const reader = new Reader(reply.writers);
  while (!reader.isEmpty) writers.push({ number: reader.u16(), key: toHex(reader.take(32)) });
  return { metadata: reply.metadata.slice(), writers, epoch: reply.epoch, epochRecords: reply.records };
}
