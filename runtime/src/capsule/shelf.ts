import type { CapsuleInput, CapsuleOutput } from "../codec/capsule.ts";
import { readKeys, writeKeys, writeValues } from "../codec/capsule.ts";
import { type Operation, readOperations } from "../codec/operation.ts";
import type { State } from "../driver/state.ts";
import { detach } from "../guard.ts";
import { isPromise, MAX_COMMIT, MAX_OPERATIONS, type MaybePromise } from "../stores/store.ts";

/** What a replica asks of its store. */
export type Ask = Extract<CapsuleOutput, { type: "StoreGet" | "StoreScan" | "StoreCommit" }>;

interface Commit {
  readonly tag: number;
  readonly durable: boolean;
  readonly operations: readonly Operation[];
  readonly bytes: number;
}

type Read = () => void;

/** The parts of a shelf. */
export interface ShelfParts {
  /** The replica's part of the store. */
  readonly state: State;
  /** Takes answers. */
  readonly answer: (input: CapsuleInput) => void;
  /** A commit failed: takes the answer, which the replica hears before anything else. */
  readonly fail: (input: CapsuleInput, error: unknown) => void;
  /** Hears why something could not be read. */
  readonly log: (error: unknown) => void;
  /** Hears of keys that were written. */
  readonly onPut: (key: Uint8Array) => void;
}

/**
 * A replica's way to its store: commits apply in their order and reads see those before them, as the store promises. Commits
 * that wait for another are applied as one. Of what was to be committed after a commit that failed nothing is, until the
 * replica has been told: it was made in the belief that the first one had worked.
 */
export class Shelf {
  readonly #parts: ShelfParts;
  #waiting: (Commit | Read)[] = [];
  #committing = false;
  #broken = false;

  constructor(parts: ShelfParts) {
    this.#parts = parts;
  }

  /** Does what is asked; the answer comes through the parts, now or later. */
  ask(ask: Ask): void {
    this.#waiting.push(ask.type === "StoreCommit" ? commitOf(ask) : () => this.#read(ask));
    this.#carryOn();
  }

  /** Nobody waits for answers any more: what the store was not told yet is left out. */
  stop(): void {
    this.#waiting = [];
  }

  /** The replica knows of the commit that failed: what it asks from now on takes it into account. */
  told(): void {
    this.#broken = false;
  }

  #carryOn(): void {
    for (;;) {
      const next = this.#waiting[0];
      if (next === undefined) return;
      if (typeof next === "function") {
        this.#waiting.shift();
        next();
      } else if (this.#committing) return;
      else this.#commit(this.#takeGroup());
    }
  }

  /** As many of the commits that come first as the store takes at once. */
  #takeGroup(): Commit[] {
    const group: Commit[] = [];
    let [count, bytes] = [0, 0];
    for (const next of this.#waiting) {
      if (typeof next === "function") break;
      count += next.operations.length;
      bytes += next.bytes;
      if (group.length > 0 && (count > MAX_OPERATIONS || bytes > MAX_COMMIT)) break;
      group.push(next);
    }
    this.#waiting.splice(0, group.length);
    return group;
  }

  #commit(group: readonly Commit[]): void {
    if (this.#broken) return;
    const operations = group.flatMap((commit) => commit.operations);
    const durable = group.some((commit) => commit.durable);
    this.#committing = true;
    settle(
      () => this.#parts.state.commit(operations, durable),
      () => {
        this.#committing = false;
        for (const { key, value } of operations) if (value !== null) this.#parts.onPut(key);
        for (const { tag } of group) this.#parts.answer({ type: "StoreCommitted", tag, ok: true });
      },
      (error) => {
        this.#committing = false;
        this.#broken = true;
        const tag = group[0]?.tag ?? 0;
        this.#parts.fail({ type: "StoreCommitted", tag, ok: false }, error);
      },
      () => this.#carryOn(),
    );
  }

  #read(ask: Exclude<Ask, { type: "StoreCommit" }>): void {
    const { state, answer, log } = this.#parts;
    const { tag } = ask;
    const unless = (failed: CapsuleInput) => (error: unknown) => {
      log(error);
      answer(failed);
    };
    if (ask.type === "StoreScan") {
      settle(
        () => state.keys(ask.start, ask.end, ask.limit),
        (keys) => answer({ type: "StoreKeys", tag, ok: true, keys: writeKeys(keys) }),
        unless({ type: "StoreKeys", tag, ok: false, keys: new Uint8Array() }),
      );
    } else {
      settle(
        () => all(readKeys(ask.keys).map((key) => state.get(key))),
        (values) => answer({ type: "StoreValues", tag, ok: true, values: writeValues(values) }),
        unless({ type: "StoreValues", tag, ok: false, values: new Uint8Array() }),
      );
    }
  }
}

function commitOf({ tag, durable, operations: encoded }: Extract<Ask, { type: "StoreCommit" }>): Commit {
  return { tag, durable, operations: readOperations(encoded), bytes: encoded.length };
}

/** Values that are all there at once, or later. */
function all<T>(values: MaybePromise<T>[]): MaybePromise<T[]> {
  return values.some(isPromise) ? Promise.all(values) : (values as T[]);
}

/** Does something that ends now or later, and then what follows. */
function settle<T>(
  work: () => MaybePromise<T>,
  done: (value: T) => void,
  failed: (error: unknown) => void,
  after: () => void = () => undefined,
): void {
  let result: MaybePromise<T>;
  try {
    result = work();
  } catch (error) {
    return failed(error);
  }
  if (!isPromise(result)) return done(result);
  detach("what follows a commit", result.then(done, failed).then(after));
}
