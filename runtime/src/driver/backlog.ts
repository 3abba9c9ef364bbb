import { sourceOf } from "../transports/shares.ts";

/**
 * Most bytes that wait to be sent on all paths of a core, four paths with the most that one may have: half of the 128 MB of an
 * isolate, like the core's bound for what waits to be read.
 */
export const MAX_WAITING: number = 64 * 1024 * 1024;
/** What may still wait after paths were closed: all paths are asked again only after an eighth of the bound was sent. */
const KEPT: number = MAX_WAITING - MAX_WAITING / 8;

/** A path on which bytes wait. */
export interface Waiting {
  /** Bytes that wait now. */
  readonly waitingBytes: number;
}

interface Queue {
  /** The peer's network, or the path itself if it has none: a proxy's address is everybody's. */
  readonly source: unknown;
  /** How much waited when the path was asked last; by now it may be less. */
  bytes: number;
}

/** The bytes that wait to be sent on all paths, closed ones included as long as they send what is left. */
export class Backlog<P extends Waiting> {
  readonly #queues: Map<P, Queue> = new Map();
  #total = 0;

  /** Counts a path to this address. */
  add(path: P, remote: string): void {
    this.#queues.set(path, { source: sourceOf(remote) ?? path, bytes: 0 });
  }

  /** Counts what waits on a path to which a frame was sent. Returns the paths to break off, which count no more. */
  sent(path: P): P[] {
    const queue = this.#queues.get(path);
    if (queue === undefined) return [];
    this.#ask(path, queue);
    return this.#total > MAX_WAITING ? this.#shrink() : [];
  }

  /** Forgets a closed path if nothing waits on it any more. */
  closed(path: P): void {
    const queue = this.#queues.get(path);
    if (queue === undefined) return;
    this.#ask(path, queue);
    if (queue.bytes === 0) this.#queues.delete(path);
  }

  /** Forgets a path whose bytes were dropped. */
  dropped(path: P): void {
    this.#total -= this.#queues.get(path)?.bytes ?? 0;
    this.#queues.delete(path);
  }

  #ask(path: P, queue: Queue): void {
    const bytes = path.waitingBytes;
    this.#total += bytes - queue.bytes;
    queue.bytes = bytes;
  }

  #shrink(): P[] {
    for (const [path, queue] of this.#queues) this.#ask(path, queue);
    const dropped: P[] = [];
    while (this.#total > KEPT) {
      const path = this.#largest();
      if (path === undefined) break;
      this.dropped(path);
      dropped.push(path);
    }
    return dropped;
  }

  /** The path with the most bytes of the source with the most. */
  #largest(): P | undefined {
    const sums = new Map<unknown, number>();
    for (const { source, bytes } of this.#queues.values()) sums.set(source, (sums.get(source) ?? 0) + bytes);
    let largest: { path: P; sum: number; bytes: number } | undefined;
    for (const [path, { source, bytes }] of this.#queues) {
      const sum = sums.get(source) ?? 0;
      const isLarger =
        largest === undefined || sum > largest.sum || (sum === largest.sum && bytes > largest.bytes);
      if (isLarger) largest = { path, sum, bytes };
    }
    return largest?.path;
  }
}
