/** Retransmission time before the first measurement (RFC 6298, section 2.1). */
const FIRST_TIMEOUT_MS = 1_000;
/** Least retransmission time. */
const MIN_TIMEOUT_MS = 200;
/** Longest retransmission time. */
export const MAX_TIMEOUT_MS = 2_000;

/** How long a peer may keep an acknowledgement back. */
const MAX_DELAY_MS = 25;

/** How long a round trip takes, and so how long to wait for an acknowledgement (RFC 6298). Milliseconds. */
export class RoundTrip {
  #least = Number.POSITIVE_INFINITY;
  #mean = 0;
  #deviation = 0;

  /** The shortest round trip that was measured; infinite before. */
  get least(): number {
    return this.#least;
  }

  /** The mean over the last round trips; 0 before the first was measured. */
  get mean(): number {
    return this.#mean;
  }

  /** The retransmission time. */
  get timeout(): number {
    if (this.#least === Number.POSITIVE_INFINITY) return FIRST_TIMEOUT_MS;
    return Math.min(Math.max(this.#mean + 4 * this.#deviation, MIN_TIMEOUT_MS), MAX_TIMEOUT_MS);
  }

  /** After how long without an acknowledgement something is sent again to hear what arrived; infinite before it is known. */
  get patience(): number {
    if (this.#least === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
    return 2 * this.#mean + MAX_DELAY_MS;
  }

  /** Notes how long a round trip took. */
  measured(sample: number): void {
    if (this.#least === Number.POSITIVE_INFINITY) {
      this.#mean = sample;
      this.#deviation = sample / 2;
    } else {
      this.#deviation += (Math.abs(this.#mean - sample) - this.#deviation) / 4;
      this.#mean += (sample - this.#mean) / 8;
    }
    this.#least = Math.min(this.#least, sample);
  }
}
