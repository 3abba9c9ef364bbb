import type { PublishOptions } from "../driver/service.ts";

/** What was said of a service while it ran: how to publish it, or not to. */
export type Amendment = PublishOptions | "withdrawn";

/**
 * What was said of services while they ran, kept because a Durable Object forgets all else when it sleeps. It holds for
 * the service as it was configured then; a deployment that configures it otherwise has the last word.
 */
export class Amendments {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(
      "CREATE TABLE IF NOT EXISTS _selfsame_services (name TEXT PRIMARY KEY, configured TEXT NOT NULL, amended TEXT NOT NULL)",
    );
  }

  /** What was said of a service of this configuration. */
  of(name: string, configured: PublishOptions): Amendment | undefined {
    const query = "SELECT amended FROM _selfsame_services WHERE name = ? AND configured = ?";
    for (const { amended } of this.#sql.exec(query, name, JSON.stringify(configured))) {
      return JSON.parse(String(amended)) as Amendment;
    }
    return undefined;
  }

  /** Keeps what is said of a service of this configuration. */
  set(name: string, configured: PublishOptions, amendment: Amendment): void {
    const values = [name, JSON.stringify(configured), JSON.stringify(amendment)];
    this.#sql.exec("INSERT OR REPLACE INTO _selfsame_services VALUES (?, ?, ?)", ...values);
  }
}
