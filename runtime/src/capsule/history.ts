import { MeshError } from "../codec/code.ts";
import type { Capsule } from "./client.ts";
import type { CapsuleHeads, CapsuleRecord } from "./reading.ts";
import type { RecordHeader } from "./record.ts";

/** Records that are read at a time, at most. */
const MAX_BATCH = 256;
/** New records that are read before somebody asks for more; the others come with `more`. */
const MAX_NEW = 1024;

/** A record of a history: proven, and opened if the client may read it. */
export interface HistoryRecord extends RecordHeader {
  /** Its name, 64 hex digits. */
  readonly name: string;
  /** What it holds; nothing if it is sealed for others. */
  readonly record: CapsuleRecord | undefined;
  /** The backpointers that are no shortcuts: to the primary parent, and to the branches that it merges. */
  readonly parents: readonly string[];
}

/** What a history needs of a capsule. */
export type Readable = Pick<Capsule, "heads" | "readAll" | "header">;

/**
 * The records of a capsule from its heads on, as many as were asked for: each after all that point to it, those that were heard of
 * last first. A shortcut leads to a record further back, which comes in its turn.
 */
export class History {
  readonly #capsule: Readable;
  /** What was read, with the number that its order among those that could come next follows; later ones are higher. */
  readonly #read: Map<string, { readonly record: Read; readonly stamp: number }> = new Map();
  /** What comes next, further back, by name: the number of the writer whose shortcut this may be, if it may. */
  readonly #frontier: Map<string, number | undefined> = new Map();
  /** What shortcuts lead to and nothing else that was read. */
  readonly #ahead: Map<string, Read> = new Map();
  #heads: ReadonlySet<string> = new Set();
  #newest = 0;
  #oldest = 0;
  #records: readonly HistoryRecord[] = [];

  constructor(capsule: Readable) {
    this.#capsule = capsule;
  }

  /** What was read so far. */
  get records(): readonly HistoryRecord[] {
    return this.#records;
  }

  /** Names of the records that no other points to. */
  get heads(): ReadonlySet<string> {
    return this.#heads;
  }

  /** Whether all was read. */
  get isWhole(): boolean {
    return this.#frontier.size === 0 && this.#ahead.size === 0;
  }

  /** Asks which records are the newest and reads those that are new; the first time none, and `more` reads on. */
  async refresh(): Promise<CapsuleHeads> {
    const fresh = await this.#capsule.heads();
    const names = fresh.heads.map(({ name }) => name);
    this.#heads = new Set(names);
    if (this.#read.size === 0) {
      for (const name of names) this.#frontier.set(name, undefined);
    } else {
      const earlier = new Map(this.#frontier);
      this.#frontier.clear();
      for (const name of names) this.#reach(name, undefined);
      const found = await this.#readBack(MAX_NEW, earlier);
      for (const record of found.reverse()) this.#read.set(record.name, { record, stamp: ++this.#newest });
      for (const [name, writer] of earlier) this.#reach(name, writer);
    }
    this.#arrange();
    return fresh;
  }

  /** Reads further back, until there are so many records more or all are read. */
  async more(count: number): Promise<void> {
    for (const record of await this.#readBack(count, new Map())) {
      this.#read.set(record.name, { record, stamp: --this.#oldest });
    }
    this.#arrange();
  }

  /** Reads what comes next, so many records at most and not those that come next later; in the order in which they were reached. */
  async #readBack(count: number, later: ReadonlyMap<string, number | undefined>): Promise<Read[]> {
    const found = new Map<string, Read>();
    while (found.size < count && !this.isWhole) {
      if (this.#frontier.size === 0) {
        // Nothing else leads there: these were no shortcuts, but branches that their own writer has merged.
        if (later.size > 0) break;
        for (const name of this.#ahead.keys()) this.#frontier.set(name, undefined);
      }
      const next = [...this.#frontier].slice(0, Math.min(MAX_BATCH, count - found.size));
      for (const [name, record] of await this.#fetch(next, found)) {
        const writer = this.#frontier.get(name);
        this.#frontier.delete(name);
        // A hole, which is filled when a replica has it again.
        if (record === undefined) continue;
        if (record.writer === writer) {
          this.#ahead.set(name, record);
          continue;
        }
        this.#ahead.delete(name);
        found.set(name, record);
        for (const pointer of pointersOf(record)) {
          if (!found.has(pointer.name) && !later.has(pointer.name)) this.#reach(pointer.name, pointer.writer);
        }
      }
    }
    return [...found.values()];
  }

  /** Takes note of what a record points to; what two lead to is no mere shortcut if it is none for one of them. */
  #reach(name: string, writer: number | undefined): void {
    if (this.#read.has(name) || (writer !== undefined && this.#ahead.has(name))) return;
    const isKnown = this.#frontier.has(name) && this.#frontier.get(name) === undefined;
    if (!isKnown) this.#frontier.set(name, writer);
  }

  /** Reads records, of those that are sealed for others the headers; if that fails, what was found goes back to what comes next. */
  async #fetch(
    next: readonly (readonly [string, unknown])[],
    found: ReadonlyMap<string, Read>,
  ): Promise<Map<string, Read | undefined>> {
    const fetched = new Map(next.map(([name]) => [name, this.#ahead.get(name)]));
    const unknown = [...fetched.keys()].filter((name) => !this.#ahead.has(name));
    try {
      const results = unknown.length === 0 ? [] : await this.#capsule.readAll(unknown);
      const read = results.map((result, index) => this.#readOne(unknown[index] ?? "", result));
      for (const [index, record] of (await Promise.all(read)).entries()) {
        fetched.set(unknown[index] ?? "", record);
      }
      return fetched;
    } catch (error) {
      for (const name of found.keys()) this.#frontier.set(name, undefined);
      throw error;
    }
  }

  async #readOne(name: string, result: CapsuleRecord | MeshError): Promise<Read | undefined> {
    if (!(result instanceof MeshError)) return { ...result, name, record: result };
    if (result.name === "NoRecord") return undefined;
    if (result.name !== "NotAReader") throw result;
    return { ...(await this.#capsule.header(name)), name, record: undefined };
  }

  /** Puts what was read into its order: of those whose children have all come the one that was heard of last. */
  #arrange(): void {
    const children = new Map<string, number>();
    for (const { record } of this.#read.values()) {
      for (const name of record.backpointers) children.set(name, (children.get(name) ?? 0) + 1);
    }
    const ready = [...this.#read.values()].filter(({ record }) => !children.has(record.name));
    const order: HistoryRecord[] = [];
    while (ready.length > 0) {
      const [next] = ready.splice(indexOfNewest(ready), 1);
      if (next === undefined) break;
      order.push({ ...next.record, parents: this.#parentsOf(next.record) });
      for (const name of next.record.backpointers) {
        const left = (children.get(name) ?? 0) - 1;
        children.set(name, left);
        const parent = this.#read.get(name);
        if (left === 0 && parent !== undefined) ready.push(parent);
      }
    }
    this.#records = order;
  }

  #parentsOf(record: Read): string[] {
    const isParent = ({ name, writer }: Pointer): boolean => {
      const found = this.#read.get(name)?.record ?? this.#ahead.get(name);
      return writer === undefined || (found !== undefined && found.writer !== writer);
    };
    return pointersOf(record)
      .filter(isParent)
      .map(({ name }) => name);
  }
}

type Read = RecordHeader & Pick<HistoryRecord, "name" | "record">;

/** What a record points to: a shortcut if that is of the writer, where one is named. */
type Pointer = { readonly name: string; readonly writer: number | undefined };

function pointersOf({ kind, writer, backpointers }: RecordHeader): Pointer[] {
  return backpointers.map((name, index) => {
    const mayBeShortcut = index > 0 && kind !== "epoch";
    return { name, writer: mayBeShortcut ? writer : undefined };
  });
}

function indexOfNewest(ready: readonly { readonly stamp: number }[]): number {
  let newest = 0;
  for (const [index, { stamp }] of ready.entries()) {
    if (stamp > (ready[newest]?.stamp ?? Number.NEGATIVE_INFINITY)) newest = index;
  }
  return newest;
}
