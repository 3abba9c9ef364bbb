/** The most that a clock may be ahead: as far as others accept records from the future. */
const MOST_AHEAD_MS = 60_000;

/** The part of a Durable Object's SQLite that tells the time of its machine. */
export interface TimeSql {
  exec(query: string): { one(): Readonly<Record<string, unknown>> };
}

/**
 * The clock of a Durable Object beside that of its machine. An object's time never goes back: when the machine's clock is
 * set back, `Date.now()` stands still until that has caught up, and no timer fires. Only a new object has the right time.
 */
export class ObjectClock {
  readonly #sql: TimeSql;
  /** What the two differ by anyway. */
  readonly #usual_ms: number;

  constructor(sql: TimeSql) {
    this.#sql = sql;
    this.#usual_ms = this.#ahead_ms();
  }

  /** Whether the machine's clock was set back so far that others refuse what this object signs. */
  get standsStill(): boolean {
    return this.#ahead_ms() - this.#usual_ms > MOST_AHEAD_MS;
  }

  #ahead_ms(): number {
    return Date.now() - Number(this.#sql.exec("SELECT unixepoch() AS now").one().now) * 1000;
  }
}
