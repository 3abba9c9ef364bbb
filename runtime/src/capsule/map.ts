import { MeshError } from "../codec/code.ts";
import { fromUtf8, Reader, utf8, Writer } from "../codec/field.ts";
import { toHex } from "../codec/hex.ts";
import type { MapCommand, MapReply } from "../codec/map.ts";
import { type Asked, askOf, Capsule } from "./client.ts";
import { keyBytes, textBytes, valueBytes } from "./map-text.ts";
import type { CapsuleOptions } from "./options.ts";

/** Entries of one page. */
const PAGE = 256;
/** How often the servers are asked what is new for those who subscribe, unless they say so. */
const EVERY_MS = 1000;
const SET = 1;
const DELETE = 2;
const VALUE = 1;
const UNREAD = 2;
const PLACE_BYTES = 36;

/** How a map is opened: as its capsule is. */
export interface MapOptions extends CapsuleOptions {
  /**
   * When what is set is signed: `now`, so that everybody sees it as soon as it is written, or `late`: when it is read here, when
   * `sign` is called, when an index is due or when the map is closed. Late is faster, as one signature then stands for many writes.
   */
  readonly signing?: "now" | "late" | undefined;
}

/** How something is read. */
export interface MapReadOptions {
  /**
   * `strong`, unless given: a read quorum of the servers is asked what is new. `eventual`: as of when they were last asked, which
   * is quicker.
   */
  readonly consistency?: "strong" | "eventual" | undefined;
}

/** How something is written. */
export interface MapWriteOptions {
  /** Whether it is signed at once; otherwise the map's `signing` says. */
  readonly sign?: boolean | undefined;
}

/** Which entries are listed. */
export interface MapListOptions extends MapReadOptions {
  /** Only keys that begin so. */
  readonly prefix?: string | undefined;
  /** Only keys from this one on. */
  readonly start?: string | undefined;
  /** Only keys before this one. */
  readonly end?: string | undefined;
  /** At most so many. */
  readonly limit?: number | undefined;
}

/** What is subscribed to. */
export interface MapSubscribeOptions {
  /** Only keys that begin so. */
  readonly prefix?: string | undefined;
  /** Ends the subscription. */
  readonly signal?: AbortSignal | undefined;
  /** How often the servers are asked what is new, in milliseconds; a second unless given. */
  readonly every_ms?: number | undefined;
}

/** A key and its value. */
export interface MapEntry {
  readonly key: string;
  readonly value: Uint8Array;
  /** Names what set it: the record, 64 hex digits, and the number of the sub-record in it. */
  readonly version: string;
}

/** What a key was at a time. */
export interface MapRevision {
  readonly key: string;
  /** Its value; `undefined` if it was deleted. */
  readonly value: Uint8Array | undefined;
  /** Names what set or deleted it. */
  readonly version: string;
}

/** What a subscriber hears: what a key is now, or that changes were `missed`, and what is known must be listed anew. */
export type MapChange = ({ readonly type: "changed" } & MapRevision) | { readonly type: "missed" };

/** Something of a batch: without a value the key is deleted. */
export interface MapOperation {
  readonly key: string;
  readonly value: Uint8Array | string | undefined;
}

type Entries = Extract<MapReply, { type: "Entries" }>;

interface Read {
  readonly key: string;
  readonly place: Uint8Array;
  readonly isDeleted: boolean;
  /** `undefined` also if it was not read. */
  readonly value: Uint8Array | undefined;
}

/**
 * A map of keys to values in a capsule. Keys are well-formed text of 1 to 1024 bytes of UTF-8 and sorted by these, values have at
 * most 1,040,384 bytes; others are refused (`BadInput`, `TooLarge`). All that is read is proven.
 */
export class CapsuleMap {
  /** The capsule that it is in. */
  readonly capsule: Capsule;
  readonly #signs: boolean;

  private constructor(capsule: Capsule, signing: "now" | "late") {
    this.capsule = capsule;
    this.#signs = signing === "now";
  }

  /** Opens the map in a capsule. */
  static async open(options: MapOptions, module: WebAssembly.Module): Promise<CapsuleMap> {
    return new CapsuleMap(await Capsule.open(options, module), options.signing ?? "now");
  }

  /** Creates the capsule of the metadata that it was opened with; resolves when a write quorum has stored it. */
  create(): Promise<void> {
    return this.capsule.create();
  }

  /** The value of a key, if it has one. */
  async get(key: string, options?: MapReadOptions): Promise<Uint8Array | undefined> {
    return (await this.getEntry(key, options))?.value;
  }

  /** The value of a key as text. */
  async getText(key: string, options?: MapReadOptions): Promise<string | undefined> {
    const value = await this.get(key, options);
    return value === undefined ? undefined : fromUtf8(value);
  }

  /** The value of a key as what its JSON says. */
  async getJson<T = unknown>(key: string, options?: MapReadOptions): Promise<T | undefined> {
    const text = await this.getText(key, options);
    return text === undefined ? undefined : (JSON.parse(text) as T);
  }

  /** The entry of a key, if it has one. */
  async getEntry(key: string, options?: MapReadOptions): Promise<MapEntry | undefined> {
    const reply = await this.#ask({ type: "MapGet", fresh: isFresh(options), key: keyBytes(key) });
    return readEntries(reply).map(entryOf)[0];
  }

  /** Sets a key, and resolves when a write quorum has stored it. */
  async set(key: string, value: Uint8Array | string, options?: MapWriteOptions): Promise<void> {
    await this.batch([{ key, value }], options);
  }

  /** Sets a key to the JSON of a value. */
  async setJson(key: string, value: unknown, options?: MapWriteOptions): Promise<void> {
    await this.set(key, JSON.stringify(value), options);
  }

  /** Deletes a key. */
  async delete(key: string, options?: MapWriteOptions): Promise<void> {
    await this.batch([{ key, value: undefined }], options);
  }

  /** Sets and deletes keys, at most 1024, all or none: together they have to fit in a record of a megabyte. */
  async batch(
    operations: readonly MapOperation[],
    { sign = this.#signs }: MapWriteOptions = {},
  ): Promise<void> {
    const asked = { type: "MapWrite", sign, operations: encodeOperations(operations) } as const;
    await askOf(this.capsule, asked, "Written").reply;
  }

  /** Signs what was written late, so that everybody sees it. */
  async sign(): Promise<void> {
    await askOf(this.capsule, { type: "Sign" }, "Done").reply;
  }

  /** Entries in the order of their keys. What changes meanwhile may be among them, or not. */
  async *list(options: MapListOptions = {}): AsyncGenerator<MapEntry, void, undefined> {
    for await (const read of this.#list(options, true)) yield entryOf(read);
  }

  /** Keys in their order, without their values. */
  async *keys(options: MapListOptions = {}): AsyncGenerator<string, void, undefined> {
    for await (const { key } of this.#list(options, false)) yield key;
  }

  /** What a key was, the newest first: each time that it was set or deleted. */
  async *history(
    key: string,
    { limit = Number.POSITIVE_INFINITY }: { readonly limit?: number | undefined } = {},
  ): AsyncGenerator<MapRevision, void, undefined> {
    let before: Uint8Array = new Uint8Array();
    let [left, more] = [limit, true];
    while (more && left > 0) {
      const asked = { type: "MapHistory", key: keyBytes(key), before, limit: Math.min(left, PAGE) } as const;
      const reply = await this.#ask(asked);
      const reads = readEntries(reply);
      for (const read of reads) yield revisionOf(read);
      left -= reads.length;
      more = reply.more && reads.length > 0;
      before = reads.at(-1)?.place ?? before;
    }
  }

  /** What changes from now on, until the signal aborts or the loop over it is left. */
  async *subscribe({
    prefix = "",
    signal,
    every_ms = EVERY_MS,
  }: MapSubscribeOptions = {}): AsyncGenerator<MapChange, void, undefined> {
    const range = { ...rangeOf({ prefix }), every_ms };
    let { version } = await this.#ask({ type: "MapChanges", begin: true, since: 0, ...range });
    while (signal?.aborted !== true) {
      const reply = await this.#changes(
        { type: "MapChanges", begin: false, since: version, ...range },
        signal,
      );
      if (reply === undefined) return;
      version = reply.version;
      if (reply.more) yield { type: "missed" };
      for (const read of readEntries(reply)) {
        // Not all values fit in one reply.
        const unread = read.value === undefined && !read.isDeleted;
        const value = unread ? await this.get(read.key, { consistency: "eventual" }) : read.value;
        yield { type: "changed", ...revisionOf(read), value };
      }
    }
  }

  /** Signs what is not signed yet, and closes the capsule. */
  async close(): Promise<void> {
    try {
      if (!this.#signs) await this.sign();
    } catch (error) {
      // Who has written nothing has nothing to sign.
      if (!(error instanceof MeshError) || !["NoRecord", "NotAWriter"].includes(error.name)) throw error;
    } finally {
      await this.capsule.close();
    }
  }

  async *#list(options: MapListOptions, values: boolean): AsyncGenerator<Read, void, undefined> {
    let left = options.limit ?? Number.POSITIVE_INFINITY;
    let { start, end } = rangeOf(options);
    let [fresh, more] = [isFresh(options), true];
    while (more && left > 0) {
      const asked = { type: "MapList", fresh, values, start, end, limit: Math.min(left, PAGE) } as const;
      const reply = await this.#ask(asked);
      const reads = readEntries(reply);
      yield* reads;
      left -= reads.length;
      const last = reads.at(-1);
      more = reply.more && last !== undefined;
      if (last !== undefined) start = utf8(`${last.key}\0`);
      fresh = false;
    }
  }

  #ask(asked: Asked<MapCommand>): Promise<Entries> {
    return askOf(this.capsule, asked, "Entries").reply;
  }

  /** Waits for changes; nothing if the signal aborts. */
  async #changes(asked: Asked<MapCommand>, signal: AbortSignal | undefined): Promise<Entries | undefined> {
    const { command: waiting, reply } = askOf(this.capsule, asked, "Entries");
    const cancel = (): void => {
      askOf(this.capsule, { type: "Cancel", waiting }, "Done").reply.catch(() => undefined);
    };
    signal?.addEventListener("abort", cancel, { once: true });
    try {
      return await reply;
    } catch (error) {
      if (signal?.aborted) return undefined;
      throw error;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
  }
}

function isFresh(options: MapReadOptions | undefined): boolean {
  return options?.consistency !== "eventual";
}

/** From where to where keys lie that begin with a prefix and are between two. */
function rangeOf({ prefix = "", start = "", end }: Pick<MapListOptions, "prefix" | "start" | "end">) {
  const beyond = textBytes(prefix, "a prefix");
  // No byte of UTF-8 is the largest, so the next one is a byte.
  if (beyond.length > 0) beyond[beyond.length - 1] = (beyond.at(-1) ?? 0) + 1;
  const last = end === undefined ? beyond : smaller(textBytes(end, "the end of a range"), beyond);
  const first = utf8(prefix);
  const from = textBytes(start, "the start of a range");
  return { start: compare(from, first) > 0 ? from : first, end: last };
}

/** The smaller of two ends, of which an empty one is none. */
function smaller(one: Uint8Array, other: Uint8Array): Uint8Array {
  return other.length === 0 || compare(one, other) < 0 ? one : other;
}

function compare(one: Uint8Array, other: Uint8Array): number {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at++) {
    const difference = (one[at] ?? 0) - (other[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return one.length - other.length;
}

function encodeOperations(operations: readonly MapOperation[]): Uint8Array {
  const writer = new Writer();
  for (const { key, value } of operations) {
    writer.u8(value === undefined ? DELETE : SET).bytes(keyBytes(key));
    if (value !== undefined) writer.bytes(valueBytes(value));
  }
  return writer.copy();
}

function readEntries({ entries }: Entries): Read[] {
  const reader = new Reader(entries);
  const reads: Read[] = [];
  while (!reader.isEmpty) {
    const [key, place] = [fromUtf8(reader.bytes()), reader.take(PLACE_BYTES).slice()];
    reader.u64();
    const held = reader.u8();
    const value = held === VALUE ? reader.bytes().slice() : undefined;
    reads.push({ key, place, isDeleted: held !== VALUE && held !== UNREAD, value });
  }
  return reads;
}

function versionOf(place: Uint8Array): string {
  return `${toHex(place.subarray(0, 32))}/${new Reader(place.subarray(32)).u32()}`;
}

function entryOf({ key, place, value = new Uint8Array() }: Read): MapEntry {
  return { key, value, version: versionOf(place) };
}

function revisionOf({ key, place, value }: Read): MapRevision {
  return { key, value, version: versionOf(place) };
}
