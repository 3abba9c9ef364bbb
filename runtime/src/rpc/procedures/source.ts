import type { MeshError } from "../../codec/code.ts";
import type { Timer, Timers } from "../../driver/timers.ts";
import { detach } from "../../guard.ts";
import { RpcRefusal } from "../handler.ts";
import { writeFailure } from "./error.ts";
import { writeJson } from "./json.ts";
import { BATCH_BYTES, BATCH_ITEMS, LINGER_MS, MAX_ITEM } from "./limits.ts";
import { writeBatch, writeFailed } from "./wire.ts";

/** The items that an implementation gives, as long as its signal does not abort. */
export type Produce = (signal: AbortSignal) => AsyncIterable<unknown>;

/** How the items of a stream travel. */
export interface ItemFormat {
  /** Encodes an item; throws if it is too long. */
  readonly encode: (item: unknown) => Uint8Array;
  /** Returns the parts of a batch. */
  readonly frame: (items: readonly Uint8Array[]) => readonly Uint8Array[];
}

const OPEN: Uint8Array = /* @__PURE__ */ Uint8Array.of(0x5b);
const COMMA: Uint8Array = /* @__PURE__ */ Uint8Array.of(0x2c);
const CLOSE: Uint8Array = /* @__PURE__ */ Uint8Array.of(0x5d);

/** Items in an array of JSON. */
export const JSON_ITEMS: ItemFormat = {
  encode: itemOf,
  frame: (items) => [OPEN, ...items.flatMap((item, at) => (at === 0 ? [item] : [COMMA, item])), CLOSE],
};

/** The batches of a stream, each of which is made when it is asked for. */
export class BatchSource {
  readonly #id: Uint8Array;
  readonly #format: ItemFormat;
  readonly #timers: Timers;
  readonly #iterator: AsyncIterator<unknown>;
  readonly #ending: AbortController = new AbortController();
  #number = -1;
  #batch: Promise<Uint8Array> | undefined;
  #next: Promise<IteratorResult<unknown>> | undefined;
  #isMaking = false;
  #isOver = false;
  #failure: { readonly error: unknown } | undefined;

  constructor(id: Uint8Array, produce: Produce, format: ItemFormat, timers: Timers) {
    this.#id = id;
    this.#format = format;
    this.#timers = timers;
    this.#iterator = produce(this.#ending.signal)[Symbol.asyncIterator]();
  }

  /** Whether its last batch was made. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Returns the next batch, or the latest one again; one without items if there are none within the time. */
  ask(number: number, wait_ms: number): Promise<Uint8Array> {
    if (number === this.#number && this.#batch !== undefined) return this.#batch;
    if (number !== this.#number + 1 || this.#isMaking || this.#isOver) {
      throw new RpcRefusal("BadStream", "a stream is asked for its latest batch or the one after it");
    }
    this.#number = number;
    this.#isMaking = true;
    this.#batch = this.#make(number, wait_ms).finally(() => {
      this.#isMaking = false;
    });
    return this.#batch;
  }

  /** Stops the implementation, unless it has ended. */
  end(reason: MeshError): void {
    if (!this.#isOver) this.#stop(reason);
  }

  #stop(reason: unknown): void {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort(reason);
    detach("the end of a stream", this.#iterator.return?.());
  }

  async #make(number: number, wait_ms: number): Promise<Uint8Array> {
    if (this.#failure !== undefined) return this.#fail(this.#failure.error);
    const items: Uint8Array[] = [];
    try {
      await this.#collect(items, wait_ms);
    } catch (error) {
      if (items.length === 0) return this.#fail(error);
      // What was given before it comes first.
      this.#failure = { error };
    }
    return writeBatch(this.#id, number, this.#isOver, this.#format.frame(items));
  }

  #fail(error: unknown): Uint8Array {
    this.#isOver = true;
    this.#stop(error);
    if (!(error instanceof RpcRefusal)) throw error;
    return writeFailed(writeFailure({ code: error.code, message: error.message }));
  }

  async #collect(items: Uint8Array[], wait_ms: number): Promise<void> {
    let patience = new Patience(this.#timers, wait_ms, this.#ending.signal);
    try {
      for (let bytes = 0; bytes < BATCH_BYTES && items.length < BATCH_ITEMS; ) {
        const next = await Promise.race([this.#pending(), patience.over]);
        if (next === undefined) return;
        this.#next = undefined;
        if (next.done === true) {
          this.#isOver = true;
          return;
        }
        const item = this.#format.encode(next.value);
        bytes += item.length;
        if (items.push(item) > 1) continue;
        patience.cancel();
        patience = new Patience(this.#timers, LINGER_MS, this.#ending.signal);
      }
    } finally {
      patience.cancel();
    }
  }

  /** The item that is under way when a batch is closed belongs to the next one. */
  #pending(): Promise<IteratorResult<unknown>> {
    if (this.#next === undefined) {
      this.#next = this.#iterator.next();
      this.#next.catch(() => undefined);
    }
    return this.#next;
  }
}

/** How long a batch waits for an item. */
class Patience {
  readonly #timer: Timer;
  readonly #signal: AbortSignal;
  readonly #settled: PromiseWithResolvers<undefined> = Promise.withResolvers();

  constructor(timers: Timers, wait_ms: number, signal: AbortSignal) {
    this.#signal = signal;
    this.#timer = timers.after(wait_ms, () => this.#settled.resolve(undefined));
    signal.addEventListener("abort", this.#stop);
    if (signal.aborted) this.#stop();
    this.over.catch(() => undefined);
  }

  /** Resolves when the time is over; rejects when the stream ends. */
  get over(): Promise<undefined> {
    return this.#settled.promise;
  }

  cancel(): void {
    this.#timer.cancel();
    this.#signal.removeEventListener("abort", this.#stop);
  }

  readonly #stop = (): void => this.#settled.reject(new RpcRefusal("Cancelled"));
}

function itemOf(value: unknown): Uint8Array {
  // JSON has no `undefined` in an array.
  const item = writeJson(value ?? null, "an item of a stream");
  if (item.length <= MAX_ITEM) return item;
  throw new RangeError(`an item of a stream has at most ${MAX_ITEM} bytes (got ${item.length})`);
}
