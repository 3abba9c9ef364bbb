import { closeSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import process from "node:process";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { MeshError } from "../codec/code.ts";
import { checkCommit, type Entry, type Operation, type Store, type StoreFactory } from "./store.ts";

/** Marks our files, so that the database of another program is never written to ("sfsm"). */
const APPLICATION_ID = 0x7366736d;
/** SQLite's primary result codes that mean that the file itself is damaged or no database. */
const CORRUPT = 11;
const NOT_A_DATABASE = 26;
const BUSY = 5;
/** The file holds the node's seed: it is for its owner alone. SQLite gives its journals the mode of the file. */
const PRIVATE = 0o600;
/** What others may do with a file. */
const OTHERS = 0o077;
/**
 * Pages of the write-ahead log, 16 MiB, after which SQLite copies them to their places and waits twice for the disk. With its own
 * default, a quarter, commits that do not wait themselves take half as long again.
 */
const CHECKPOINT_PAGES = 4000;
/** Largest number that SQLite keeps beside the tables. */
const MAX_SYNCS = 0x7fff_ffff;

/**
 * Keeps the node in a SQLite file: `path` is the file when it has an extension, else a folder that is made and holds
 * `selfsame.db`. One process has it open at a time. The file is made for its owner alone (mode 0600), and one that others may
 * read is refused with `StoreFailed`.
 */
export function sqlite(path: string): StoreFactory {
  return () => new SqliteStore(extname(path) === "" ? join(path, "selfsame.db") : path);
}

/** Makes the file if there is none. One that is there is not opened: closing it again would end the locks that SQLite has on it. */
function makePrivate(file: string): void {
  try {
    closeSync(openSync(file, "wx", PRIVATE));
  } catch (error) {
    if ((error as { code?: string }).code !== "EEXIST") throw error;
  }
}

/** A store in one SQLite file, through `node:sqlite`. */
export class SqliteStore implements Store {
  readonly location: string;
  readonly shared: boolean = false;
  readonly #database: DatabaseSync;
  readonly #get: StatementSync;
  readonly #scan: StatementSync;
  readonly #keys: StatementSync;
  readonly #put: StatementSync;
  readonly #delete: StatementSync;
  #synchronous = "FULL";
  #syncs = 0;

  constructor(file: string) {
    this.location = file;
    this.#database = this.#guard(() => {
      mkdirSync(dirname(file), { recursive: true });
      makePrivate(file);
      return new DatabaseSync(file);
    });
    try {
      this.#guard(() => this.#prepare());
      this.#get = this.#database.prepare("SELECT value FROM entries WHERE key = ?");
      this.#scan = this.#database.prepare(
        "SELECT key, value FROM entries WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
      );
      this.#keys = this.#database.prepare(
        "SELECT key FROM entries WHERE key >= ? AND key < ? ORDER BY key LIMIT ?",
      );
      this.#put = this.#database.prepare("INSERT OR REPLACE INTO entries (key, value) VALUES (?, ?)");
      this.#delete = this.#database.prepare("DELETE FROM entries WHERE key = ?");
    } catch (error) {
      this.#database.close();
      throw error;
    }
  }

  get(key: Uint8Array): Uint8Array | undefined {
    return this.#guard(() => this.#get.get(key)?.value as Uint8Array | undefined);
  }

  scan(start: Uint8Array, end: Uint8Array, limit: number): Entry[] {
    return this.#guard(() =>
      this.#scan.all(start, end, limit).map((row) => [row.key as Uint8Array, row.value as Uint8Array]),
    );
  }

  keys(start: Uint8Array, end: Uint8Array, limit: number): Uint8Array[] {
    return this.#guard(() => this.#keys.all(start, end, limit).map((row) => row.key as Uint8Array));
  }

  commit(operations: readonly Operation[], durable: boolean): void {
    this.#guard(() => {
      checkCommit(operations);
      this.#setSynchronous(durable ? "FULL" : "NORMAL");
      if (operations.length === 0) return durable ? this.#sync() : undefined;
      this.#database.exec("BEGIN IMMEDIATE");
      try {
        for (const { key, value } of operations) {
          if (value === null) this.#delete.run(key);
          else this.#put.run(key, value);
        }
        this.#database.exec("COMMIT");
      } catch (error) {
        if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
        throw error;
      }
    });
  }

  close(): void {
    this.#database.close();
  }

  #prepare(): void {
    // The exclusive mode takes its lock with the first access and keeps it: a second process would use the same
    // identity and counters.
    this.#database.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;");
    this.#database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    this.#database.exec("PRAGMA synchronous = FULL; BEGIN IMMEDIATE");
    const tables = this.#database.prepare("SELECT count(*) AS count FROM sqlite_master").get()?.count;
    const mark = this.#database.prepare("PRAGMA application_id").get()?.application_id;
    if (mark !== APPLICATION_ID && tables !== 0) {
      throw new MeshError(
        "StoreCorrupt",
        `${this.location} is the database of another program: choose another path`,
      );
    }
    this.#database.exec(
      `PRAGMA application_id = ${APPLICATION_ID};
       CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
       COMMIT`,
    );
    const check = this.#database.prepare("PRAGMA quick_check(1)").get()?.quick_check;
    if (check !== "ok") throw this.#corrupt(undefined);
    this.#checkMode();
  }

  #checkMode(): void {
    // Windows has no such modes.
    const mode = process.platform === "win32" ? 0 : statSync(this.location).mode & 0o777;
    if ((mode & OTHERS) === 0) return;
    const text =
      `${this.location} holds the node's secrets, and its mode ${mode.toString(8)} lets others at it: run chmod 600 on it, and start ` +
      "with a new file if somebody may have read it";
    throw new MeshError("StoreFailed", text);
  }

  /** Makes earlier commits durable. SQLite waits for the disk when something was written: here a number that nobody reads. */
  #sync(): void {
    this.#syncs = (this.#syncs + 1) % MAX_SYNCS;
    this.#database.exec(`PRAGMA user_version = ${this.#syncs}`);
  }

  /** In WAL mode, only FULL waits for the disk at each commit. */
  #setSynchronous(mode: string): void {
    if (mode === this.#synchronous) return;
    this.#database.exec(`PRAGMA synchronous = ${mode}`);
    this.#synchronous = mode;
  }

  #guard<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      if (error instanceof MeshError) throw error;
      const cause = error as { errcode?: number; message?: string };
      const code = (cause.errcode ?? 0) & 0xff;
      if (code === CORRUPT || code === NOT_A_DATABASE) throw this.#corrupt(error);
      if (code === BUSY) {
        const text = `${this.location} is in use by another process: stop it, or choose another path`;
        throw new MeshError("StoreFailed", text, { cause: error });
      }
      throw new MeshError("StoreFailed", `${this.location}: ${cause.message ?? error}`, { cause: error });
    }
  }

  #corrupt(cause: unknown): MeshError {
    const text =
      `${this.location} is damaged or no database of this program: restore a copy, or move it away and ` +
      "let the node start with a new identity";
    return new MeshError("StoreCorrupt", text, { cause });
  }
}
