import { MeshError } from "../codec/code.ts";
import { checkCommit, type Entry, type Operation, type Store, type StoreFactory } from "./store.ts";

const ENTRIES = "entries";
/** Layout of the database; what its entries mean has a number of its own, kept by the driver. */
const VERSION = 1;
/** A key that is no bytes, and so is part of no range. */
const SYNC = 0;
/** Tabs of one application that are peers at the same time; each has an identity of its own. */
const MAX_SLOTS = 64;

/**
 * Keeps the node in IndexedDB under this name. Every tab is a peer of its own: a tab takes the first database of
 * `name`, `name.1`, `name.2` that no other tab holds.
 */
export function indexedDb(name: string): StoreFactory {
  return async () => {
    for (let slot = 0; slot < MAX_SLOTS; slot++) {
      const location = slot === 0 ? name : `${name}.${slot}`;
      const release = await lock(`selfsame:${location}`);
      if (release === undefined) continue;
      try {
        return new IndexedDbStore(location, await open(location), release);
      } catch (error) {
        release();
        throw error;
      }
    }
    throw new MeshError("StoreFailed", `${MAX_SLOTS} tabs hold the store ${name}: close some`);
  };
}

/** A store in one IndexedDB database. */
export class IndexedDbStore implements Store {
  readonly location: string;
  readonly shared: boolean = false;
  readonly #database: IDBDatabase;
  readonly #release: () => void;

  constructor(name: string, database: IDBDatabase, release: () => void) {
    this.location = `IndexedDB ${name}`;
    this.#database = database;
    this.#release = release;
  }

  async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    const transaction = this.#transaction("readonly");
    const value: unknown = await this.#result(transaction.objectStore(ENTRIES).get(owned(key)));
    return value === undefined ? undefined : this.#bytes(value);
  }

  async scan(start: Uint8Array, end: Uint8Array, limit: number): Promise<Entry[]> {
    const range = rangeOf(start, end);
    if (limit === 0 || range === undefined) return [];
    const entries = this.#transaction("readonly").objectStore(ENTRIES);
    const [keys, values] = await Promise.all([
      this.#result(entries.getAllKeys(range, limit)),
      this.#result(entries.getAll(range, limit)),
    ]);
    return keys.map((key, index) => [new Uint8Array(key as ArrayBuffer), this.#bytes(values[index])]);
  }

  async keys(start: Uint8Array, end: Uint8Array, limit: number): Promise<Uint8Array[]> {
    const range = rangeOf(start, end);
    if (limit === 0 || range === undefined) return [];
    const keys = await this.#result(
      this.#transaction("readonly").objectStore(ENTRIES).getAllKeys(range, limit),
    );
    return keys.map((key) => new Uint8Array(key as ArrayBuffer));
  }

  async commit(operations: readonly Operation[], durable: boolean): Promise<void> {
    checkCommit(operations);
    return new Promise((resolve, reject) => {
      const transaction = this.#transaction("readwrite", durable ? "strict" : "relaxed");
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(this.#failed(transaction.error));
      const entries = transaction.objectStore(ENTRIES);
      // A transaction that writes nothing waits for nothing, but is to make earlier ones durable.
      if (durable && operations.length === 0) entries.put(new ArrayBuffer(0), SYNC);
      for (const { key, value } of operations) {
        if (value === null) entries.delete(owned(key));
        else entries.put(owned(value), owned(key));
      }
    });
  }

  close(): void {
    this.#database.close();
    this.#release();
  }

  #transaction(mode: IDBTransactionMode, durability?: "strict" | "relaxed"): IDBTransaction {
    try {
      return this.#database.transaction(ENTRIES, mode, durability === undefined ? {} : { durability });
    } catch (error) {
      throw this.#failed(error);
    }
  }

  #result<T>(request: IDBRequest<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(this.#failed(request.error));
    });
  }

  #bytes(value: unknown): Uint8Array {
    if (value instanceof ArrayBuffer) return new Uint8Array(value);
    throw new MeshError(
      "StoreCorrupt",
      `${this.location} holds what this program did not write: delete the site's data to start anew`,
    );
  }

  #failed(cause: unknown): MeshError {
    const text = cause instanceof Error ? cause.message : String(cause);
    return new MeshError("StoreFailed", `${this.location}: ${text}`, { cause });
  }
}

/** Bytes in a buffer of their own; IndexedDB would keep the whole buffer behind a view. */
function owned(bytes: Uint8Array): ArrayBuffer {
  return Uint8Array.from(bytes).buffer;
}

/** Nothing for a range that is empty, of which there is none. */
function rangeOf(start: Uint8Array, end: Uint8Array): IDBKeyRange | undefined {
  const [from, to] = [owned(start), owned(end)];
  return indexedDB.cmp(from, to) >= 0 ? undefined : IDBKeyRange.bound(from, to, false, true);
}

/** Takes a lock until the tab is gone, or says that another one has it; where there are no locks, always takes it. */
function lock(name: string): Promise<(() => void) | undefined> {
  const locks = globalThis.navigator?.locks;
  if (locks === undefined) return Promise.resolve(() => undefined);
  return new Promise((resolve, reject) => {
    const held = locks.request(name, { ifAvailable: true }, (granted) => {
      if (granted === null) return resolve(undefined);
      return new Promise<void>((release) => resolve(release));
    });
    held.catch(reject);
  });
}

function open(name: string): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(`selfsame:${name}`, VERSION);
    request.onupgradeneeded = () => request.result.createObjectStore(ENTRIES);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => {
      const newer = request.error?.name === "VersionError";
      const text = `IndexedDB ${name}: ${request.error?.message ?? "cannot be opened"}`;
      reject(
        new MeshError(newer ? "StoreTooNew" : "StoreFailed", newer ? "" : text, { cause: request.error }),
      );
    };
    request.onblocked = () =>
      reject(new MeshError("StoreFailed", `IndexedDB ${name} is held by another tab`));
  });
}
