import type { WakeTimer } from "./driver.ts";

/** The longest time that a platform's timer takes, in milliseconds. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** Wakes the driver with a timer of the platform. */
export function timeoutTimer(wake: () => void): WakeTimer {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let due_ms = Number.POSITIVE_INFINITY;
  const cancel = (): void => {
    if (timer !== undefined) clearTimeout(timer);
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
      timer = setTimeout(fire, Math.min(Math.max(at_ms - Date.now(), 0), MAX_TIMEOUT_MS));
    },
  };
}
