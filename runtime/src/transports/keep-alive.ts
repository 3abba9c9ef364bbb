import { unref } from "../driver/timers.ts";
import { guarded } from "../guard.ts";

/** The dialling side asks for a sign of life after so long without one: below the 30 s after which proxies cut. */
const ASK_AFTER_MS = 20_000;
/** It asks so often before it gives a path up. */
const QUESTIONS = 2;
/** The accepting side gives up after so long: it hears at least two questions in this time. */
const SILENCE_MS = 80_000;

/** What a path does when its peer is silent. */
export interface KeepAliveParts {
  /** Whether this side dialled: it asks, the other side answers. */
  readonly dialled: boolean;
  /** Asks the peer for a sign of life. */
  readonly ask: () => void;
  /** Closes the path. */
  readonly giveUp: () => void;
}

/** Watches how long a peer has been silent. One timer for each path, however many frames arrive. */
export class KeepAlive {
  readonly #parts: KeepAliveParts;
  readonly #patience_ms: number;
  #since_ms: number = performance.now();
  #questions = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(parts: KeepAliveParts) {
    this.#parts = parts;
    this.#patience_ms = parts.dialled ? ASK_AFTER_MS : SILENCE_MS;
    this.#wait();
  }

  /** Notes that the peer was heard. */
  heard(): void {
    this.#since_ms = performance.now();
    this.#questions = 0;
  }

  /** Watches no more. */
  stop(): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #wait(): void {
    const left_ms = this.#patience_ms - (performance.now() - this.#since_ms);
    this.#timer = setTimeout(
      guarded("a keep-alive", () => this.#look()),
      Math.max(left_ms, 1),
    );
    unref(this.#timer);
  }

  #look(): void {
    if (performance.now() - this.#since_ms < this.#patience_ms) return this.#wait();
    if (!this.#parts.dialled || this.#questions === QUESTIONS) {
      this.stop();
      return this.#parts.giveUp();
    }
    this.#questions++;
    this.#since_ms = performance.now();
    this.#wait();
    this.#parts.ask();
  }
}
