/** Names of which something is known. */
const MAX_ENTRIES = 4096;
/** Names that strangers of one network have caused to be looked up. */
const MAX_OF_NETWORK = 256;

interface Entry<T> {
  readonly known: T;
  readonly until_ms: number;
  /** The network of the stranger for whom it was looked up. */
  readonly network: string | undefined;
}

/** What is known of names, for as long as it is good. */
export class Cache<T> {
  readonly #entries: Map<string, Entry<T>> = new Map();

  /** How many names it holds. */
  get size(): number {
    return this.#entries.size;
  }

  /** Returns what is known of a name. */
  get(name: string, now_ms: number): T | undefined {
    const entry = this.#entries.get(name);
    return entry !== undefined && now_ms < entry.until_ms ? entry.known : undefined;
  }

  /** Forgets a name. */
  delete(name: string): void {
    this.#entries.delete(name);
  }

  /** Keeps what is known of a name; what would end first makes room, of the network that has too much or the most. */
  set(name: string, entry: Entry<T>, now_ms: number): void {
    const { network } = entry;
    const counts = this.#countsByNetwork();
    if (network !== undefined && (counts.get(network) ?? 0) >= MAX_OF_NETWORK) {
      this.#evict(now_ms, network);
    } else if (this.#entries.size >= MAX_ENTRIES) {
      const [largest] = [...counts].sort(([, one], [, other]) => other - one);
      this.#evict(now_ms, largest?.[0]);
    }
    this.#entries.set(name, entry);
  }

  /** Removes what is over, or else the entry that ends first, of a network if one is given. */
  #evict(now_ms: number, network: string | undefined): void {
    const before = this.#entries.size;
    let first: [string, Entry<T>] | undefined;
    for (const [name, entry] of this.#entries) {
      if (entry.until_ms <= now_ms) this.#entries.delete(name);
      else if (
        (network === undefined || entry.network === network) &&
        (first === undefined || entry.until_ms < first[1].until_ms)
      )
        first = [name, entry];
    }
    if (this.#entries.size === before && first !== undefined) this.#entries.delete(first[0]);
  }

  #countsByNetwork(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { network } of this.#entries.values())
      if (network !== undefined) counts.set(network, (counts.get(network) ?? 0) + 1);
    return counts;
  }
}
