import type { Timer, Timers } from "../driver/timers.ts";
import type { Span } from "./span.ts";

/** Spans that wait to be sent; beyond it the oldest go, so that a collector that is away costs bounded memory. */
const MAX_QUEUED = 2048;
/** Spans of one request to the collector: some hundreds of kilobytes. */
const MAX_BATCH = 512;
/** After a failure nothing is sent for so long, doubling up to the longest. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
/** The end of a longer pause is left to the next request: a pending timer would keep a Durable Object in memory. */
const LONGEST_TIMER_MS = 1_000;

/** How a batch was taken: `refused` for good, or `away` for now. */
export type Delivery = "taken" | "refused" | "away";

/** What an exporter is made of. */
export interface ExporterParts {
  /** Time between two batches. */
  readonly interval_ms: number;
  /** Timers of the node's host. */
  readonly timers: Timers;
  /** Sends spans, and what was counted so far. */
  readonly send: (spans: readonly Span[]) => Promise<Delivery>;
  /** Hears how many spans were lost. */
  readonly lost: (count: number) => void;
  /** Keeps the platform awake until the promise settles. */
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

/** Gathers spans and sends them in batches, one at a time. Whoever adds one never waits. */
export class Exporter {
  readonly #parts: ExporterParts;
  #queue: Span[] = [];
  #timer: Timer | undefined;
  #sending: Promise<void> | undefined;
  #pause_ms = 0;
  #notBefore_ms = 0;
  #isClosed = false;

  constructor(parts: ExporterParts) {
    this.#parts = parts;
  }

  /** Adds a span to be sent. */
  add(span: Span): void {
    if (this.#isClosed) return;
    if (this.#queue.length >= MAX_QUEUED) {
      this.#queue.shift();
      this.#parts.lost(1);
    }
    this.#queue.push(span);
    this.touch();
  }

  /** Something was counted: it is sent with the next batch. A timer is pending only while there is something to send. */
  touch(): void {
    if (this.#isClosed || this.#sending !== undefined) return;
    const left_ms = this.#notBefore_ms - performance.now();
    if (left_ms > LONGEST_TIMER_MS) return;
    const isFull = this.#queue.length >= MAX_BATCH && left_ms <= 0;
    if (this.#timer !== undefined && !isFull) return;
    this.#schedule(isFull ? 0 : Math.max(this.#parts.interval_ms, left_ms));
  }

  /** Sends what is left, in `timeout_ms` at most, and nothing after it. */
  async close(timeout_ms: number): Promise<void> {
    if (this.#isClosed) return;
    const { promise: expired, resolve } = Promise.withResolvers<void>();
    const timer = this.#parts.timers.after(timeout_ms, resolve);
    await Promise.race([this.#sendAll(), expired]);
    timer.cancel();
    this.#isClosed = true;
    this.#stop();
    this.#queue = [];
  }

  async #sendAll(): Promise<void> {
    const hadTimer = this.#timer !== undefined;
    this.#stop();
    await this.#sending;
    if (!hadTimer && this.#queue.length === 0) return;
    do await this.#send();
    while (this.#queue.length > 0 && this.#pause_ms === 0 && !this.#isClosed);
  }

  #schedule(delay_ms: number): void {
    this.#stop();
    this.#timer = this.#parts.timers.after(delay_ms, () => {
      this.#timer = undefined;
      this.#parts.waitUntil(this.#send());
    });
    // A process that has nothing else to do may end.
    this.#timer.unref();
  }

  #stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #send(): Promise<void> {
    this.#sending ??= this.#sendBatch().finally(() => {
      this.#sending = undefined;
      if (this.#queue.length > 0) this.touch();
    });
    return this.#sending;
  }

  async #sendBatch(): Promise<void> {
    const batch = this.#queue.splice(0, MAX_BATCH);
    const delivery = await this.#parts.send(batch).catch((): Delivery => "away");
    if (delivery === "away") {
      this.#pause_ms = Math.min(Math.max(this.#pause_ms * 2, FIRST_PAUSE_MS), LONGEST_PAUSE_MS);
      this.#notBefore_ms = performance.now() + this.#pause_ms;
      const free = MAX_QUEUED - this.#queue.length;
      const kept = free > 0 ? batch.slice(-free) : [];
      this.#parts.lost(batch.length - kept.length);
      this.#queue.unshift(...kept);
      return;
    }
    this.#pause_ms = 0;
    this.#notBefore_ms = 0;
    if (delivery === "refused") this.#parts.lost(batch.length);
  }
}
