import type { NameOptions } from "./service.ts";

/** How a name is followed. */
export interface WatchOptions extends NameOptions {
  /** Ends the iteration when it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

/** What whoever watches is told. */
export interface Watcher<T> {
  /** There is something new. */
  tell(value: T): void;
  /** Nothing comes any more, because of this error if there is one. */
  end(error?: unknown): void;
}

/** A name that is followed, and who hears of its providers. */
export interface NameWatch {
  readonly owner: Uint8Array;
  readonly name: string;
  readonly watcher: Watcher<Uint8Array>;
}

type Result<T> = IteratorResult<T, undefined>;

/** The latest of what a watcher is told: whoever takes it slowly misses what was overtaken meanwhile. */
export class Latest<T> implements AsyncIterableIterator<T, undefined> {
  readonly #begin: (watcher: Watcher<T>) => () => void;
  #stop: (() => void) | undefined;
  #latest: { readonly value: T } | undefined;
  #error: { readonly error: unknown } | undefined;
  #isOver = false;
  readonly #waiting: PromiseWithResolvers<Result<T>>[] = [];

  /** `begin` is called with the first `next` and returns what ends the watching. */
  constructor(begin: (watcher: Watcher<T>) => () => void) {
    this.#begin = begin;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<Result<T>> {
    if (!this.#isOver) this.#stop ??= this.#begin({ tell: this.#tell, end: this.#end });
    const latest = this.#latest;
    this.#latest = undefined;
    if (latest !== undefined) return { done: false, value: latest.value };
    const failure = this.#error;
    this.#error = undefined;
    if (failure !== undefined) throw failure.error;
    if (this.#isOver) return { done: true, value: undefined };
    const waiting = Promise.withResolvers<Result<T>>();
    this.#waiting.push(waiting);
    return waiting.promise;
  }

  async return(): Promise<Result<T>> {
    this.#latest = undefined;
    this.#end();
    return { done: true, value: undefined };
  }

  readonly #tell = (value: T): void => {
    if (this.#isOver) return;
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#latest = { value };
    else waiting.resolve({ done: false, value });
  };

  readonly #end = (error?: unknown): void => {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stop?.();
    const first = error === undefined ? undefined : this.#waiting.shift();
    if (first !== undefined) first.reject(error);
    else if (error !== undefined) this.#error = { error };
    for (const waiting of this.#waiting.splice(0)) waiting.resolve({ done: true, value: undefined });
  };
}
