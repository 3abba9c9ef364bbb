import { MAX_TIMER_MS, platformTimers, type Timer, type Timers, type WakeTimer } from "./timers.ts";

/** Wakes the driver with a timer; the platform's unless given. */
export function timeoutTimer(wake: () => void, timers: Timers = platformTimers): WakeTimer {
  let timer: Timer | undefined;
  let due_ms = Number.POSITIVE_INFINITY;
  const cancel = (): void => {
    timer?.cancel();
    timer = undefined;
    due_ms = Number.POSITIVE_INFINITY;
  };
  return {
    cancel,
    schedule: (at_ms) => {
      if (at_ms === due_ms && timer !== undefined) return;
      cancel();
      if (at_ms === Number.POSITIVE_INFINITY) return;
      due_ms = at_ms;
      const fire = (): void => {
        timer = undefined;
        due_ms = Number.POSITIVE_INFINITY;
        wake();
      };
      timer = timers.after(Math.min(Math.max(at_ms - Date.now(), 0), MAX_TIMER_MS), fire);
    },
  };
}
