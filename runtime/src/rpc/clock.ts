/** Beyond this the wall clock was set, or the machine has slept. */
const MAX_DRIFT_MS = 50;

/** Time since 1970 as finely as the platform tells it: round trips on one machine take less than a millisecond. */
export class Clock {
  #offset_ms: number = Number.NEGATIVE_INFINITY;

  /** The time, in microseconds since 1970. */
  now_us(): number {
    const wall_ms = Date.now();
    const monotonic_ms = performance.now();
    const drift_ms = Math.abs(this.#offset_ms + monotonic_ms - wall_ms);
    if (drift_ms > MAX_DRIFT_MS) this.#offset_ms = wall_ms - monotonic_ms;
    return Math.trunc((this.#offset_ms + monotonic_ms) * 1000);
  }
}
