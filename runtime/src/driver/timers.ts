/** A call that is to come. */
export interface Timer {
  /** Sees to it that it does not come, if it has not come yet. */
  cancel(): void;
}

/** Calls back later. */
export interface Timers {
  /** Calls once, after so many milliseconds. */
  after(delay_ms: number, act: () => void): Timer;
}

/** Timers of the platform, each a timeout of its own. */
export const platformTimers: Timers = {
  after(delay_ms, act) {
    const timeout = setTimeout(act, delay_ms);
    return { cancel: () => clearTimeout(timeout) };
  },
};
