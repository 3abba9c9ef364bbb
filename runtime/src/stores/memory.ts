import {
  checkCommit,
  compareKeys,
  type Entry,
  type Operation,
  type Store,
  type StoreFactory,
} from "./store.ts";

/** Keeps everything in memory: the node has a new identity after a restart. */
export function memory(): StoreFactory {
  return () => new MemoryStore();
}

/** An ordered map in memory. */
export class MemoryStore implements Store {
  readonly location: string = "memory";
  readonly shared: boolean = false;
  readonly #keys: Uint8Array[] = [];
  readonly #values: Uint8Array[] = [];

  get(key: Uint8Array): Uint8Array | undefined {
    const { at, found } = this.#locate(key);
    return found ? this.#values[at]?.slice() : undefined;
  }

  scan(start: Uint8Array, end: Uint8Array, limit: number): Entry[] {
    const from = this.#locate(start).at;
    const to = Math.min(this.#locate(end).at, from + limit);
    const values = this.#values.slice(from, to);
    return this.#keys
      .slice(from, to)
      .map((key, index) => [key.slice(), (values[index] as Uint8Array).slice()]);
  }

  keys(start: Uint8Array, end: Uint8Array, limit: number): Uint8Array[] {
    const from = this.#locate(start).at;
    const to = Math.min(this.#locate(end).at, from + limit);
    return this.#keys.slice(from, to).map((key) => key.slice());
  }

  commit(operations: readonly Operation[]): void {
    checkCommit(operations);
    for (const { key, value } of operations) {
      const { at, found } = this.#locate(key);
      const replaced = found ? 1 : 0;
      if (value === null) {
        this.#keys.splice(at, replaced);
        this.#values.splice(at, replaced);
      } else {
        this.#keys.splice(at, replaced, key.slice());
        this.#values.splice(at, replaced, value.slice());
      }
    }
  }

  close(): void {
    this.#keys.length = 0;
    this.#values.length = 0;
  }

  #locate(key: Uint8Array): { at: number; found: boolean } {
    let low = 0;
    let high = this.#keys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const order = compareKeys(this.#keys[middle] as Uint8Array, key);
      if (order === 0) return { at: middle, found: true };
      if (order < 0) low = middle + 1;
      else high = middle;
    }
    return { at: low, found: false };
  }
}
