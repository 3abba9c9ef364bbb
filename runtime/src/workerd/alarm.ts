import type { Timer, Timers, WakeTimer } from "../driver/timers.ts";
import type { Activity } from "../transports/protocol.ts";

/** Sooner wake-ups use a timer while work goes on: an alarm is a row written and a request billed. */
const LEAST_ALARM_MS = 10_000;
/**
 * When work ends with such a wake-up ahead, it is mostly the deadline of a request whose answer is under way: a timer
 * waits for it that long before the alarm is set.
 */
const GRACE_MS = 1_000;
/** An alarm in the past fires at once and again; this keeps a clock that stands still from making it spin. */
const LEAST_AHEAD_MS = 50;

/** The part of a Durable Object's storage that sets its one alarm. */
export interface AlarmStorage {
  setAlarm(at_ms: number): Promise<void>;
}

/**
 * Wakes a Durable Object without keeping it awake. Ten seconds or more ahead: the alarm. Sooner: a timer, but only
 * while something goes on anyway and a moment longer, since a pending timer pins the object in memory; else the alarm.
 */
export class AlarmTimer implements WakeTimer {
  readonly #storage: AlarmStorage;
  readonly #activity: Activity;
  readonly #timers: Timers;
  readonly #wake: () => void;
  readonly #onError: (error: unknown) => void;
  #due_ms = Number.POSITIVE_INFINITY;
  #retry_ms = Number.POSITIVE_INFINITY;
  #alarm_ms = Number.POSITIVE_INFINITY;
  #timer: Timer | undefined;

  constructor(
    storage: AlarmStorage,
    activity: Activity,
    timers: Timers,
    wake: () => void,
    onError: (error: unknown) => void,
  ) {
    this.#storage = storage;
    this.#activity = activity;
    this.#timers = timers;
    this.#wake = wake;
    this.#onError = onError;
  }

  /** Takes note of the alarm that was set before the object slept. */
  adopt(alarm_ms: number | null): void {
    this.#alarm_ms = alarm_ms ?? Number.POSITIVE_INFINITY;
  }

  /** Asks for an alarm at this time beside what the core wants. */
  retry(at_ms: number): void {
    this.#retry_ms = at_ms;
    this.arrange();
  }

  /** The alarm has fired. */
  fired(): void {
    this.#retry_ms = Number.POSITIVE_INFINITY;
    this.#alarm_ms = Number.POSITIVE_INFINITY;
  }

  schedule(at_ms: number): void {
    this.#due_ms = at_ms;
    this.arrange();
  }

  cancel(): void {
    this.#due_ms = Number.POSITIVE_INFINITY;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Chooses anew between timer and alarm: called when the due time or the activity changes. */
  arrange(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const due_ms = Math.min(this.#due_ms, this.#retry_ms);
    if (due_ms === Number.POSITIVE_INFINITY) return;
    const ahead_ms = Math.max(due_ms - Date.now(), 0);
    if (ahead_ms >= LEAST_ALARM_MS) this.#setAlarm(due_ms);
    else if (ahead_ms <= GRACE_MS || !this.#activity.isIdle) this.#after(ahead_ms, this.#wake);
    else this.#after(GRACE_MS, () => this.#setAlarm(due_ms));
  }

  #after(delay_ms: number, act: () => void): void {
    this.#timer = this.#timers.after(delay_ms, () => {
      this.#timer = undefined;
      act();
    });
  }

  #setAlarm(due_ms: number): void {
    // An earlier alarm comes to the same: the core then says when it wants the next one.
    if (this.#alarm_ms <= due_ms) return;
    this.#alarm_ms = due_ms;
    const at_ms = Math.max(Math.ceil(due_ms), Date.now() + LEAST_AHEAD_MS);
    this.#storage.setAlarm(at_ms).catch((error: unknown) => {
      this.#alarm_ms = Number.POSITIVE_INFINITY;
      this.#onError(error);
    });
  }
}
