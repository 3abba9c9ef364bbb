import { MAX_SEGMENT, MAX_WINDOW } from "./packet.ts";

/** Congestion window of a new connection (RFC 6928, section 2). */
const FIRST_WINDOW = 10 * MAX_SEGMENT;
/** Least congestion window after a loss. */
const MIN_WINDOW = 2 * MAX_SEGMENT;
/** What a loss leaves of the congestion window (RFC 9438, section 4.6). */
const DECREASE = 0.7;

/** The congestion window, in bytes: slow start and congestion avoidance (RFC 5681). Transmissions count from 0 on. */
export class Congestion {
  #window = FIRST_WINDOW;
  /** Below it, the window grows by all that is acknowledged: slow start. */
  #threshold = Number.POSITIVE_INFINITY;
  /** What was lost of the transmissions below it was answered for. */
  #recovered = 0;

  /** How many bytes may be under way. */
  get window(): number {
    return this.#window;
  }

  /** So many bytes were acknowledged while the window was in use, at last those of this transmission. */
  acknowledged(bytes: number, transmission: number): void {
    // Until a loss is repaired, what arrives was sent in the larger window.
    if (transmission < this.#recovered) return;
    const grown = this.#window < this.#threshold ? bytes : (MAX_SEGMENT * bytes) / this.#window;
    this.#window = Math.min(this.#window + grown, MAX_WINDOW);
  }

  /** A transmission was lost; `next` is the one that follows all that is under way. */
  lost(transmission: number, next: number): void {
    if (transmission < this.#recovered) return;
    this.#decrease(next);
    this.#window = this.#threshold;
  }

  /** Nothing was acknowledged in time, for the first time since something was or not. */
  timedOut(isFirst: boolean, next: number): void {
    if (isFirst) this.#decrease(next);
    this.#recovered = next;
    this.#window = MAX_SEGMENT;
  }

  #decrease(next: number): void {
    this.#threshold = Math.max(this.#window * DECREASE, MIN_WINDOW);
    this.#recovered = next;
  }
}
