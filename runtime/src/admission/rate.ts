interface Rate {
  /** Between two queries. */
  readonly interval_ms: number;
  /** Queries at once. */
  readonly burst: number;
}

/** Queries of all strangers: 32 a second, and as many at once. */
const STRANGERS: Rate = { interval_ms: 1000 / 32, burst: 32 };
/** Queries of the strangers of one network: 2 a second, 8 at once. */
const NETWORK: Rate = { interval_ms: 500, burst: 8 };

/** Counts the queries of strangers. */
export class QueryRate {
  /** When nothing of the rate of all is used any more. */
  #free_ms = 0;
  /** The same of networks that have asked within the last seconds: as many as the rate of all lets ask. */
  readonly #networks: Map<string, number> = new Map();

  /** How many networks it remembers. */
  get size(): number {
    return this.#networks.size;
  }

  /** Counts a query for a stranger of a network; whether it may be sent. A network that may not takes nothing of the others. */
  take(network: string | undefined, now_ms: number): boolean {
    for (const [name, free_ms] of this.#networks) if (free_ms <= now_ms) this.#networks.delete(name);
    const own_ms = network === undefined ? 0 : this.#networks.get(network);
    const ofNetwork = network === undefined ? now_ms : after(own_ms, NETWORK, now_ms);
    const ofAll = after(this.#free_ms, STRANGERS, now_ms);
    if (ofNetwork === undefined || ofAll === undefined) return false;
    this.#free_ms = ofAll;
    if (network !== undefined) this.#networks.set(network, ofNetwork);
    return true;
  }
}

/** Returns when a rate is free after one more query; `undefined` if that is too late. */
function after(free_ms = 0, { interval_ms, burst }: Rate, now_ms: number): number | undefined {
  const next_ms = Math.max(free_ms, now_ms) + interval_ms;
  return next_ms <= now_ms + interval_ms * burst ? next_ms : undefined;
}
