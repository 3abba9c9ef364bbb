/** What became of the calls that began in one second. */
export type Second = {
  /** When it began, in seconds since 1970. */
  second: number;
  calls: number;
  /** Answers by the version that gave them. */
  versions: Record<string, number>;
  /** Why others failed, each reason once with its number. */
  failures: Record<string, number>;
  /** The slowest answer, in milliseconds. */
  slowest_ms: number;
};

/** How often calls are sent: many small portions, as real callers do. */
const PORTION_MS = 5;

/** Sends calls at a steady rate and counts what becomes of them. */
export class Tally {
  readonly #tell: (second: Second) => void;
  readonly #open: Map<number, { counted: Second; pending: number }> = new Map();

  constructor(tell: (second: Second) => void) {
    this.#tell = tell;
  }

  /** Calls at a rate, in calls in a second, until it is over; resolves when the last call has ended. */
  async run(rate: number, isOver: () => boolean, call: () => Promise<Response>): Promise<void> {
    const start = performance.now();
    const calls: Promise<void>[] = [];
    while (!isOver()) {
      const due = ((performance.now() - start) / 1000) * rate;
      while (calls.length < due) calls.push(this.#count(call));
      await new Promise((resolve) => setTimeout(resolve, PORTION_MS));
    }
    await Promise.all(calls);
    for (const second of this.#open.keys()) this.#close(second);
  }

  async #count(call: () => Promise<Response>): Promise<void> {
    const second = Math.floor(Date.now() / 1000);
    const entry = this.#entryOf(second);
    const began = performance.now();
    entry.counted.calls += 1;
    entry.pending += 1;
    try {
      const response = await call();
      await response.arrayBuffer();
      const version = response.headers.get("version");
      if (response.status === 200 && version !== null) add(entry.counted.versions, version);
      else add(entry.counted.failures, `status ${response.status}`);
    } catch (error) {
      add(entry.counted.failures, describe(error));
    }
    entry.counted.slowest_ms = Math.max(entry.counted.slowest_ms, performance.now() - began);
    entry.pending -= 1;
    if (entry.pending === 0 && second < Math.floor(Date.now() / 1000)) this.#close(second);
  }

  #entryOf(second: number): { counted: Second; pending: number } {
    const known = this.#open.get(second);
    if (known !== undefined) return known;
    const counted: Second = { second, calls: 0, versions: {}, failures: {}, slowest_ms: 0 };
    const entry = { counted, pending: 0 };
    this.#open.set(second, entry);
    // A second whose calls had all ended before it was over.
    for (const [other, { pending }] of this.#open) if (other < second && pending === 0) this.#close(other);
    return entry;
  }

  #close(second: number): void {
    const entry = this.#open.get(second);
    if (entry !== undefined && this.#open.delete(second)) this.#tell(entry.counted);
  }
}

/** What went wrong, with what was behind it. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { name, message, cause } = error;
  return cause === undefined ? `${name}: ${message}` : `${name}: ${message}, because of ${describe(cause)}`;
}

function add(counts: Record<string, number>, key: string): void {
  counts[key] = (counts[key] ?? 0) + 1;
}
