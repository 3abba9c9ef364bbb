import { MeshError } from "../codec/code.ts";
import { reasonOf } from "../guard.ts";
import {
  checkCommit,
  compareKeys,
  type Entry,
  type Operation,
  type Store,
  type StoreFactory,
} from "./store.ts";

/** The part of `Deno.Kv` that the store uses. */
export interface Kv {
  get(key: KvKey): Promise<{ value: unknown }>;
  list(
    selector: { start: KvKey; end: KvKey },
    options: { limit: number; batchSize: number },
  ): AsyncIterable<{ key: KvKey; value: unknown }>;
  atomic(): KvAtomic;
  close(): void;
}

/** A key of Deno KV, as far as the store uses it. */
export type KvKey = readonly (string | Uint8Array)[];

/** The part of `Deno.AtomicOperation` that the store uses. */
export interface KvAtomic {
  set(key: KvKey, value: unknown): KvAtomic;
  delete(key: KvKey): KvAtomic;
  commit(): Promise<{ ok: boolean }>;
}

/** Deno KV reads at most this many entries at a time. */
const BATCH = 500;

/**
 * Keeps the node in Deno KV, under `prefix`. All instances of a deployment share it, so it never holds a seed: give
 * each instance its own with the option `seed`.
 */
export function denoKv(options: { path?: string; prefix?: string } = {}): StoreFactory {
  return async () => {
    const openKv = (globalThis as { Deno?: { openKv?: (path?: string) => Promise<Kv> } }).Deno?.openKv;
    if (openKv === undefined) {
      throw new MeshError("BadConfig", "Deno KV is not there: run deno with --unstable-kv, or use sqlite()");
    }
    return new DenoKvStore(await openKv(options.path), options.prefix ?? "selfsame");
  };
}

/** A store in Deno KV. */
export class DenoKvStore implements Store {
  readonly location: string;
  readonly shared: boolean = true;
  readonly #kv: Kv;
  readonly #prefix: string;
  #last: Promise<void> = Promise.resolve();

  constructor(kv: Kv, prefix: string) {
    this.#kv = kv;
    this.#prefix = prefix;
    this.location = `Deno KV ${prefix}`;
  }

  get(key: Uint8Array): Promise<Uint8Array | undefined> {
    const at = [this.#prefix, key.slice()];
    return this.#afterCommits(async () => {
      const { value } = await this.#kv.get(at);
      return value === null ? undefined : this.#bytes(value);
    });
  }

  scan(start: Uint8Array, end: Uint8Array, limit: number): Promise<Entry[]> {
    if (limit === 0 || compareKeys(start, end) >= 0) return Promise.resolve([]);
    const selector = {
      start: [this.#prefix, start.slice()],
      end: [this.#prefix, end.slice()],
    };
    return this.#afterCommits(async () => {
      const entries: Entry[] = [];
      for await (const { key, value } of this.#kv.list(selector, {
        limit,
        batchSize: Math.min(limit, BATCH),
      })) {
        entries.push([this.#bytes(key[1]), this.#bytes(value)]);
      }
      return entries;
    });
  }

  /** Deno KV gives no keys without values. */
  async keys(start: Uint8Array, end: Uint8Array, limit: number): Promise<Uint8Array[]> {
    return (await this.scan(start, end, limit)).map(([key]) => key);
  }

  /** A commit of Deno KV is durable when it answers. */
  async commit(operations: readonly Operation[]): Promise<void> {
    checkCommit(operations);
    let atomic = this.#kv.atomic();
    for (const { key, value } of operations) {
      const at = [this.#prefix, key.slice()];
      atomic = value === null ? atomic.delete(at) : atomic.set(at, value.slice());
    }
    const done = this.#last
      .then(() => this.#guard(() => atomic.commit()))
      .then(({ ok }) => {
        if (!ok) throw new MeshError("StoreFailed", `${this.location}: a commit was refused`);
      });
    this.#last = done.catch(() => undefined);
    return done;
  }

  async close(): Promise<void> {
    await this.#last;
    this.#kv.close();
  }

  /** Runs a read behind the commits that were asked for before it. */
  async #afterCommits<T>(read: () => Promise<T>): Promise<T> {
    await this.#last;
    return this.#guard(read);
  }

  async #guard<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof MeshError) throw error;
      const text = reasonOf(error);
      throw new MeshError("StoreFailed", `${this.location}: ${text}`, { cause: error });
    }
  }

  #bytes(value: unknown): Uint8Array {
    if (value instanceof Uint8Array) return value;
    throw new MeshError(
      "StoreCorrupt",
      `${this.location} holds what this program did not write: choose another prefix`,
    );
  }
}
