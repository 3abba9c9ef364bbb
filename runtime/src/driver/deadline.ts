import { platformTimers, type Timers } from "./timers.ts";

/** How long a piece of work may take. */
export interface Deadline {
  /** Milliseconds after which it is given up. */
  readonly timeout_ms: number;
  /** Makes the error that it then fails with. */
  readonly late: () => unknown;
  /** Gives it up earlier. */
  readonly signal?: AbortSignal | undefined;
  /** What tells when it has passed; by default timers of the platform. */
  readonly timers?: Timers | undefined;
}

/** Does something that is to stop when the signal aborts, at the latest at its deadline; no timer is left when it has ended. */
export async function within<T>(
  { timeout_ms, late, signal, timers = platformTimers }: Deadline,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ending = new AbortController();
  const giveUp = (): void => ending.abort(signal?.reason);
  if (signal?.aborted === true) giveUp();
  signal?.addEventListener("abort", giveUp, { once: true });
  const timer = timers.after(timeout_ms, () => ending.abort(late()));
  try {
    return await work(ending.signal);
  } finally {
    timer.cancel();
    signal?.removeEventListener("abort", giveUp);
  }
}

/** Waits for a promise until the signal aborts, and then rejects with its reason. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const stop = (): void => reject(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
