import { checkCommit, type Entry, type Operation, type Store, type StoreFactory } from "./store.ts";

/** Most entries of a block: an insertion moves half of them, and one in so many half of the list of blocks. */
const MAX_BLOCK = 256;

/** Entries in the order of their keys, at the same places. */
interface Block {
  readonly keys: string[];
  readonly values: Uint8Array[];
}

/** Keeps everything in memory: the node has a new identity after a restart. */
export function memory(): StoreFactory {
  return () => new MemoryStore();
}

/**
 * An ordered map in memory: sorted blocks of entries, as one sorted array would move all of them at each insertion. Keys are text with a
 * character for each byte, which engines compare and keep as they are; arrays of bytes are objects that point elsewhere.
 */
export class MemoryStore implements Store {
  readonly location: string = "memory";
  readonly shared: boolean = false;
  /** None is empty. */
  readonly #blocks: Block[] = [];

  get(key: Uint8Array): Uint8Array | undefined {
    const text = textOf(key);
    const { block, at } = this.#locate(text);
    return block?.keys[at] === text ? block.values[at]?.slice() : undefined;
  }

  scan(start: Uint8Array, end: Uint8Array, limit: number): Entry[] {
    return this.#range(start, end, limit).flatMap(({ keys, values }) =>
      keys.map((key, at): Entry => [bytesOf(key), (values[at] as Uint8Array).slice()]),
    );
  }

  keys(start: Uint8Array, end: Uint8Array, limit: number): Uint8Array[] {
    return this.#range(start, end, limit).flatMap(({ keys }) => keys.map(bytesOf));
  }

  commit(operations: readonly Operation[]): void {
    checkCommit(operations);
    for (const { key, value } of operations) {
      if (value === null) this.#delete(textOf(key));
      // The `slice` of a Buffer is no copy.
      else this.#put(textOf(key), new Uint8Array(value));
    }
  }

  close(): void {
    this.#blocks.length = 0;
  }

  /** The entries from `start` to before `end`, at most `limit`, in blocks. */
  #range(start: Uint8Array, end: Uint8Array, limit: number): Block[] {
    const [first, last] = [textOf(start), textOf(end)];
    const range: Block[] = [];
    let left = limit;
    let { place, at } = this.#locate(first);
    for (let block = this.#blocks[place]; block !== undefined && left > 0; block = this.#blocks[++place]) {
      const to = Math.min(placeOf(block.keys, last), at + left);
      if (to > at) range.push({ keys: block.keys.slice(at, to), values: block.values.slice(at, to) });
      left -= Math.max(0, to - at);
      if (to < block.keys.length) break;
      at = 0;
    }
    return range;
  }

  #put(key: string, value: Uint8Array): void {
    const { block, place, at } = this.#locate(key);
    if (block === undefined) {
      this.#blocks.push({ keys: [key], values: [value] });
      return;
    }
    const replaced = block.keys[at] === key ? 1 : 0;
    block.keys.splice(at, replaced, key);
    block.values.splice(at, replaced, value);
    if (block.keys.length <= MAX_BLOCK) return;
    const half = { keys: block.keys.splice(MAX_BLOCK / 2), values: block.values.splice(MAX_BLOCK / 2) };
    this.#blocks.splice(place + 1, 0, half);
  }

  #delete(key: string): void {
    const { block, place, at } = this.#locate(key);
    if (block?.keys[at] !== key) return;
    block.keys.splice(at, 1);
    block.values.splice(at, 1);
    if (block.keys.length === 0) this.#blocks.splice(place, 1);
  }

  /** Where a key is, or would be: in the last block that begins with it or with one before it, else in the first one. */
  #locate(key: string): { block: Block | undefined; place: number; at: number } {
    let [low, high] = [0, this.#blocks.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#blocks[middle]?.keys[0] as string) <= key) low = middle + 1;
      else high = middle;
    }
    const place = Math.max(0, low - 1);
    const block = this.#blocks[place];
    return { block, place, at: block === undefined ? 0 : placeOf(block.keys, key) };
  }
}

/** The place of the first of sorted keys that is not before a key. */
function placeOf(keys: readonly string[], key: string): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as string) < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

function textOf(key: Uint8Array): string {
  // A spread would step through an iterator, which takes a third of a put.
  return String.fromCharCode.apply(null, key as unknown as number[]);
}

function bytesOf(key: string): Uint8Array {
  const bytes = new Uint8Array(key.length);
  for (let at = 0; at < key.length; at++) bytes[at] = key.charCodeAt(at);
  return bytes;
}
