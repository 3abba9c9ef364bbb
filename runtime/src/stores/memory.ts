import {
  checkCommit,
  compareKeys,
  type Entry,
  type Operation,
  type Store,
  type StoreFactory,
} from "./store.ts";

/** Most entries of a block: an insertion moves half of them, and one in so many half of the list of blocks. */
const MAX_BLOCK = 256;

/** A key and its present value. */
interface Stored {
  readonly key: Uint8Array;
  value: Uint8Array;
}

/** Keeps everything in memory: the node has a new identity after a restart. */
export function memory(): StoreFactory {
  return () => new MemoryStore();
}

/** An ordered map in memory: sorted blocks of entries, as one sorted array would move all of them at each insertion. */
export class MemoryStore implements Store {
  readonly location: string = "memory";
  readonly shared: boolean = false;
  /** None is empty. */
  readonly #blocks: Stored[][] = [];

  get(key: Uint8Array): Uint8Array | undefined {
    const block = this.#blocks[this.#blockOf(key)] ?? [];
    const found = block[entryAt(block, key)];
    return found !== undefined && compareKeys(found.key, key) === 0 ? found.value.slice() : undefined;
  }

  scan(start: Uint8Array, end: Uint8Array, limit: number): Entry[] {
    return Array.from(this.#range(start, end, limit), ({ key, value }) => [key.slice(), value.slice()]);
  }

  keys(start: Uint8Array, end: Uint8Array, limit: number): Uint8Array[] {
    return Array.from(this.#range(start, end, limit), ({ key }) => key.slice());
  }

  commit(operations: readonly Operation[]): void {
    checkCommit(operations);
    for (const { key, value } of operations) {
      if (value === null) this.#delete(key);
      else this.#put(key, value);
    }
  }

  close(): void {
    this.#blocks.length = 0;
  }

  *#range(start: Uint8Array, end: Uint8Array, limit: number): Generator<Stored, void, undefined> {
    let left = limit;
    let block = this.#blockOf(start);
    let entry = entryAt(this.#blocks[block] ?? [], start);
    for (; left > 0; left--) {
      if (entry === this.#blocks[block]?.length) {
        block++;
        entry = 0;
      }
      const stored = this.#blocks[block]?.[entry++];
      if (stored === undefined || compareKeys(stored.key, end) >= 0) return;
      yield stored;
    }
  }

  #put(key: Uint8Array, value: Uint8Array): void {
    const at = this.#blockOf(key);
    const block = this.#blocks[at];
    if (block === undefined) {
      this.#blocks.push([{ key: key.slice(), value: value.slice() }]);
      return;
    }
    const entry = entryAt(block, key);
    const found = block[entry];
    if (found !== undefined && compareKeys(found.key, key) === 0) {
      found.value = value.slice();
      return;
    }
    block.splice(entry, 0, { key: key.slice(), value: value.slice() });
    if (block.length > MAX_BLOCK) this.#blocks.splice(at + 1, 0, block.splice(MAX_BLOCK / 2));
  }

  #delete(key: Uint8Array): void {
    const at = this.#blockOf(key);
    const block = this.#blocks[at] ?? [];
    const entry = entryAt(block, key);
    const found = block[entry];
    if (found === undefined || compareKeys(found.key, key) !== 0) return;
    block.splice(entry, 1);
    if (block.length === 0) this.#blocks.splice(at, 1);
  }

  /** The place of the last block that begins with this key or one before it, else of the first one. */
  #blockOf(key: Uint8Array): number {
    const after = partitionPoint(
      this.#blocks,
      ([first]) => first !== undefined && compareKeys(first.key, key) <= 0,
    );
    return Math.max(0, after - 1);
  }
}

/** The place of the first entry of a block with this key or one after it. */
function entryAt(block: readonly Stored[], key: Uint8Array): number {
  return partitionPoint(block, (stored) => compareKeys(stored.key, key) < 0);
}

/** How many items come before the others, which are sorted so that those for which `isBefore` holds do. */
function partitionPoint<T>(items: readonly T[], isBefore: (item: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(items[middle] as T)) low = middle + 1;
    else high = middle;
  }
  return low;
}
