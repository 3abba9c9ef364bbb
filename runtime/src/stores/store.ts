import { MeshError } from "../codec/code.ts";
import type { Entry, Operation } from "../codec/operation.ts";

export type { Entry, Operation } from "../codec/operation.ts";

/** A value now, or later. */
export type MaybePromise<T> = T | PromiseLike<T>;

/** Longest key: the 256 bytes of the core and room for the driver's prefix of 33. */
export const MAX_KEY: number = 256 + 33;
/** Longest value, in bytes: Deno KV takes 64 KiB with what it adds. */
export const MAX_VALUE: number = 60 * 1024;
/** Most operations of one commit: Deno KV takes 1000 mutations, and a chunk stays well below it. */
export const MAX_OPERATIONS = 500;
/** Largest commit in bytes of keys and values: Deno KV takes 800 KiB. */
export const MAX_COMMIT: number = 512 * 1024;

/**
 * An ordered map from bytes to bytes that survives a restart.
 *
 * Commits apply in the order in which they were asked for and each applies as a whole or not at all; a read sees every
 * commit that was asked for before it. Keys and values that are handed over may be reused by the caller as soon as the
 * method has returned, so a store copies what it keeps. A store that fails rejects with a `MeshError` of the class
 * `Store`. `selfsame/store-contract` tests an implementation.
 */
export interface Store {
  /** Where the data is, for error messages. */
  readonly location: string;
  /** Whether several nodes may have the store open at once; then it never holds a seed. */
  readonly shared: boolean;
  /** Reads one value. */
  get(key: Uint8Array): MaybePromise<Uint8Array | undefined>;
  /** Reads at most `limit` entries with `start <= key < end`, in order of their bytes. */
  scan(start: Uint8Array, end: Uint8Array, limit: number): MaybePromise<Entry[]>;
  /** Reads the keys of at most `limit` entries with `start <= key < end`, in order of their bytes; values are not read. */
  keys(start: Uint8Array, end: Uint8Array, limit: number): MaybePromise<Uint8Array[]>;
  /**
   * Applies all operations or none; with `durable`, answers only when they and all commits before survive a power loss, also
   * when there are no operations.
   */
  commit(operations: readonly Operation[], durable: boolean): MaybePromise<void>;
  /** Closes the store; no method is called afterwards. */
  close(): MaybePromise<void>;
}

/** Opens a store when a node starts. */
export type StoreFactory = () => MaybePromise<Store>;

/** Whether a value comes later. */
export function isPromise<T>(value: MaybePromise<T>): value is PromiseLike<T> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

/** Orders keys by their bytes, a prefix first. */
export function compareKeys(left: Uint8Array, right: Uint8Array): number {
  const shared = Math.min(left.length, right.length);
  for (let index = 0; index < shared; index++) {
    const difference = (left[index] as number) - (right[index] as number);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** Whether two byte strings are equal. */
export function sameBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && compareKeys(left, right) === 0;
}

/** Refuses a commit beyond the limits that the weakest store has, so that a node moves between stores. */
export function checkCommit(operations: readonly Operation[]): void {
  let size = 0;
  for (const { key, value } of operations) {
    const length = value === null ? 0 : value.length;
    size += key.length + length;
    if (key.length > MAX_KEY) throw tooLarge(`a key of ${key.length} bytes`, MAX_KEY);
    if (length > MAX_VALUE) throw tooLarge(`a value of ${length} bytes`, MAX_VALUE);
  }
  if (operations.length > MAX_OPERATIONS) {
    throw tooLarge(`a commit of ${operations.length} operations`, MAX_OPERATIONS);
  }
  if (size > MAX_COMMIT) throw tooLarge(`a commit of ${size} bytes`, MAX_COMMIT);
}

function tooLarge(what: string, limit: number): MeshError {
  return new MeshError("StoreFailed", `${what} is beyond the limit of ${limit}`);
}
