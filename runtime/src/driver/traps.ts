/** Traps count for so long. */
const WINDOW_MS: number = 10 * 60_000;
/** Pause after the first of them, doubled with each other one. */
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
/** So many in the window are told as an event: somebody should look. */
const UNSTABLE = 5;

/** What is done after a trap. */
export interface AfterTrap {
  /** How long until the core is started again. */
  readonly pause_ms: number;
  /** How many traps there were lately, this one included. */
  readonly traps: number;
  /** Whether these are so many that an event tells of them. */
  readonly isUnstable: boolean;
}

/** The traps of a node's cores: how long a host waits before each new one (boundary.md, "Traps"). */
export class Traps {
  #at_ms: number[] = [];

  /** Notes a trap at a time of the monotonic clock. */
  note(now_ms: number): AfterTrap {
    this.#at_ms = [...this.#at_ms.filter((at_ms) => now_ms - at_ms < WINDOW_MS), now_ms];
    const traps = this.#at_ms.length;
    const pause_ms = Math.min(FIRST_PAUSE_MS * 2 ** (traps - 1), LONGEST_PAUSE_MS);
    return { pause_ms, traps, isUnstable: traps >= UNSTABLE };
  }
}
