import type { Timer, Timers } from "../driver/timers.ts";
import { guarded } from "../guard.ts";
import type { Activity } from "../transports/protocol.ts";

/** The timeouts of an object that is idle for so long are cleared. */
const GRACE_MS = 1_000;
/** Most timeouts of the platform at a time; with more the earliest one is replaced. */
const MAX_TIMEOUTS = 32;

interface Pending extends Timer {
  readonly due_ms: number;
  readonly act: () => void;
}

/** A timeout of the platform, and when it fires on the monotonic clock. */
interface Timeout {
  readonly due_ms: number;
  readonly id: ReturnType<typeof setTimeout>;
}

/**
 * Timers of a Durable Object, which share a few timeouts. workerd keeps a note of each timeout that was cleared until the object
 * ends, but none of one that has fired: so a timeout whose timer was cancelled fires all the same, and serves the next one. It
 * pins the object in memory, so that those which nobody waits for are cleared once the object is idle.
 */
export class ObjectTimers implements Timers {
  readonly #activity: Activity;
  readonly #pending: Set<Pending> = new Set();
  /** Each fires before the one that comes before it here. */
  #timeouts: Timeout[] = [];
  #isResting = false;

  /** `activity` says whether the object is idle; `rest` is to be called when it begins to be. */
  constructor(activity: Activity) {
    this.#activity = activity;
  }

  after(delay_ms: number, act: () => void): Timer {
    const due_ms = performance.now() + Math.max(0, delay_ms);
    const cancel = (): void => {
      this.#pending.delete(timer);
    };
    const timer: Pending = { due_ms, act, cancel, unref: () => undefined };
    this.#pending.add(timer);
    this.#arm(due_ms);
    return timer;
  }

  /** The object is idle: if it stays so, what pins it in vain is cleared. */
  rest(): void {
    const [latest] = this.#timeouts;
    const isPinned = latest !== undefined && latest.due_ms > performance.now() + GRACE_MS;
    if (this.#isResting || !isPinned) return;
    this.#isResting = true;
    this.after(GRACE_MS, () => {
      this.#isResting = false;
      if (this.#activity.isIdle) this.#clear();
    });
  }

  /** Sees to it that a timeout fires by then. */
  #arm(due_ms: number): void {
    const next = this.#timeouts.at(-1);
    if (next !== undefined && next.due_ms <= due_ms) return;
    if (next !== undefined && this.#timeouts.length === MAX_TIMEOUTS) {
      clearTimeout(next.id);
      this.#timeouts.pop();
    }
    const id = setTimeout(() => this.#fire(timeout), Math.max(0, due_ms - performance.now()));
    const timeout = { due_ms, id };
    this.#timeouts.push(timeout);
  }

  #fire(timeout: Timeout): void {
    this.#timeouts.splice(this.#timeouts.indexOf(timeout), 1);
    // Clocks of the platform are coarse, or stand still.
    const now = Math.max(performance.now(), timeout.due_ms);
    const due = [...this.#pending].filter(({ due_ms }) => due_ms <= now);
    for (const timer of due.toSorted((one, other) => one.due_ms - other.due_ms)) {
      // One may have cancelled another.
      if (this.#pending.delete(timer)) guarded("a timer", timer.act)();
    }
    this.#armNext();
  }

  #clear(): void {
    for (const { id } of this.#timeouts) clearTimeout(id);
    this.#timeouts = [];
    this.#armNext();
  }

  #armNext(): void {
    const next_ms = [...this.#pending].reduce((earliest, { due_ms }) => Math.min(earliest, due_ms), Infinity);
    if (next_ms < Infinity) this.#arm(next_ms);
  }
}
