import { MeshError } from "../codec/code.ts";
import { reasonOf } from "../guard.ts";
import {
  checkCommit,
  type Entry,
  type MaybePromise,
  type Operation,
  type Store,
  type StoreFactory,
} from "./store.ts";

type Row = { key: ArrayBuffer; value: ArrayBuffer };

/** The table of a node. */
const TABLE = "_selfsame";

/**
 * Keeps the node in the SQLite storage of its Durable Object, in a table of its own beside whatever tables the application
 * has there. What else is kept there, such as a replica of capsules, needs another table.
 */
export function durableObject(storage: DurableObjectStorage, table: string = TABLE): StoreFactory {
  return () => new DurableObjectStore(storage, table);
}

/** A store in the SQLite storage of a Durable Object. */
export class DurableObjectStore implements Store {
  readonly location: string = "the SQLite storage of the Durable Object";
  readonly shared: boolean = false;
  readonly #storage: DurableObjectStorage;
  readonly #table: string;

  constructor(storage: DurableObjectStorage, table: string) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(table)) {
      throw new MeshError(
        "BadConfig",
        "the name of a table has letters, digits and _ and begins with no digit",
      );
    }
    this.#storage = storage;
    this.#table = table;
    this.#guard(() =>
      storage.sql.exec(
        `CREATE TABLE IF NOT EXISTS ${table} (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID`,
      ),
    );
  }

  get(key: Uint8Array): Uint8Array | undefined {
    return this.#guard(() => {
      const query = `SELECT value FROM ${this.#table} WHERE key = ?`;
      const rows = this.#storage.sql.exec<Pick<Row, "value">>(query, owned(key));
      for (const { value } of rows) return this.#bytes(value);
      return undefined;
    });
  }

  scan(start: Uint8Array, end: Uint8Array, limit: number): Entry[] {
    return this.#guard(() => {
      const query = `SELECT key, value FROM ${this.#table} WHERE key >= ? AND key < ? ORDER BY key LIMIT ?`;
      const rows = this.#storage.sql.exec<Row>(query, owned(start), owned(end), limit).toArray();
      return rows.map(({ key, value }) => [this.#bytes(key), this.#bytes(value)]);
    });
  }

  keys(start: Uint8Array, end: Uint8Array, limit: number): Uint8Array[] {
    return this.#guard(() => {
      const query = `SELECT key FROM ${this.#table} WHERE key >= ? AND key < ? ORDER BY key LIMIT ?`;
      const rows = this.#storage.sql.exec<Pick<Row, "key">>(query, owned(start), owned(end), limit);
      return Array.from(rows, ({ key }) => this.#bytes(key));
    });
  }

  commit(operations: readonly Operation[], durable: boolean): MaybePromise<void> {
    this.#guard(() => {
      checkCommit(operations);
      this.#storage.transactionSync(() => {
        for (const { key, value } of operations) {
          if (value === null) this.#storage.sql.exec(`DELETE FROM ${this.#table} WHERE key = ?`, owned(key));
          else {
            const put = `INSERT OR REPLACE INTO ${this.#table} (key, value) VALUES (?, ?)`;
            this.#storage.sql.exec(put, owned(key), owned(value));
          }
        }
      });
    });
    return durable ? this.#storage.sync() : undefined;
  }

  close(): void {
    // The storage belongs to the object and stays open.
  }

  #bytes(value: unknown): Uint8Array {
    if (value instanceof ArrayBuffer) return new Uint8Array(value);
    throw new MeshError(
      "StoreCorrupt",
      `the table ${this.#table} of the Durable Object holds what this program did not write: restore it to a point in time`,
    );
  }

  #guard<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      if (error instanceof MeshError) throw error;
      const text = reasonOf(error);
      throw new MeshError("StoreFailed", `${this.location}: ${text}`, { cause: error });
    }
  }
}

function owned(bytes: Uint8Array): ArrayBuffer {
  return Uint8Array.from(bytes).buffer;
}
