/** The longest time that a platform's timer takes, in milliseconds. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1;

/** A call that is to come. */
export interface Timer {
  /** Sees to it that it does not come, if it has not come yet. */
  cancel(): void;
  /** Lets the process end before it, where there is a process. */
  unref(): void;
}

/** Calls back later. */
export interface Timers {
  /** Calls once, after so many milliseconds. */
  after(delay_ms: number, act: () => void): Timer;
}

/** Calls the driver back when the core wants to be woken. */
export interface WakeTimer {
  /** Asks to be woken at this time, in milliseconds since 1970, in place of what was asked before. */
  schedule(at_ms: number): void;
  /** Forgets what was asked. */
  cancel(): void;
}

/** Timers of the platform, each a timeout of its own. */
export const platformTimers: Timers = {
  after(delay_ms, act) {
    const timeout = setTimeout(act, delay_ms);
    return { cancel: () => clearTimeout(timeout), unref: () => unref(timeout) };
  },
};

/** Lets a timer not keep the process alive, where there is a process. */
export function unref(timer: unknown): void {
  if (typeof timer === "object" && timer !== null && "unref" in timer && typeof timer.unref === "function") {
    timer.unref();
  }
}
