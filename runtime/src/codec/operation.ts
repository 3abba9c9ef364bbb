import { malformed, Reader, Writer } from "./field.ts";

/** One change of a commit: a value to write, or to remove where there is none. */
export interface Operation {
  /** At most 256 bytes. */
  readonly key: Uint8Array;
  /** At most 60 KiB; `null` removes the key. */
  readonly value: Uint8Array | null;
}

/** A key and its value. */
export type Entry = readonly [key: Uint8Array, value: Uint8Array];

const PUT = 1;
const DELETE = 2;

/** The operations of a `StoreCommit`, as views. */
export function readOperations(encoded: Uint8Array): Operation[] {
  const reader = new Reader(encoded);
  const operations: Operation[] = [];
  while (!reader.isEmpty) {
    const kind = reader.u8();
    if (kind !== PUT && kind !== DELETE) throw malformed("an operation");
    const key = reader.bytes();
    operations.push({ key, value: kind === PUT ? reader.bytes() : null });
  }
  return operations;
}

/** Encodes the operations of a `StoreCommit`. */
export function writeOperations(operations: readonly Operation[]): Uint8Array {
  const writer = new Writer();
  for (const { key, value } of operations) {
    writer.u8(value === null ? DELETE : PUT).bytes(key);
    if (value !== null) writer.bytes(value);
  }
  return writer.copy();
}

/** The entries of a `StoreRead`, as views. */
export function readEntries(encoded: Uint8Array): Entry[] {
  const reader = new Reader(encoded);
  const entries: Entry[] = [];
  while (!reader.isEmpty) entries.push([reader.bytes(), reader.bytes()]);
  return entries;
}

/** Encodes the entries of a `StoreRead`. */
export function writeEntries(entries: readonly Entry[]): Uint8Array {
  const writer = new Writer();
  for (const [key, value] of entries) writer.bytes(key).bytes(value);
  return writer.copy();
}
