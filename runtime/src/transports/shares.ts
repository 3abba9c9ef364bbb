import { ipOf } from "./ip.ts";
import { isPublic } from "./public-address.ts";

/** Bits of an address after the network that counts as one source: /24 and /56, which one customer gets easily. */
const HOST_BITS = { 32: 8n, 128: 72n };

/**
 * The amount that each source holds of a common resource, so that none can take everything. A source that holds more than one leaves about
 * as much as it holds: so any number of large ones leave something to newcomers.
 */
export class Shares {
  readonly #most: number;
  readonly #all: number;
  readonly #held: Map<string, number> = new Map();
  #total = 0;

  /** Lets each source hold at most `most`, and all of them `all` together with whoever has no source. */
  constructor(most: number, all: number) {
    this.#most = most;
    this.#all = all;
  }

  /** How many sources hold something. */
  get size(): number {
    return this.#held.size;
  }

  /** Takes an amount for an IP address; `undefined` if its source or all would hold too much. */
  take(ip: string, amount = 1): Share | undefined {
    const share = this.shareOf(ip);
    return share.grow(amount) ? share : undefined;
  }

  /** Takes an amount for a source that is no address, such as a peer; `undefined` if it or all would hold too much. */
  takeAs(source: string, amount = 1): Share | undefined {
    const share = new Share((more) => this.#add(source, more));
    return share.grow(amount) ? share : undefined;
  }

  /** Returns the share of one holder at an IP address, which has nothing yet. */
  shareOf(ip: string): Share {
    const source = sourceOf(ip);
    return new Share((more) => this.#add(source, more));
  }

  #add(source: string | undefined, more: number): boolean {
    const held = source === undefined ? 0 : (this.#held.get(source) ?? 0) + more;
    const left = this.#all - this.#total - more;
    if (more > 0 && (left < 0 || held > Math.min(this.#most, left + 1))) return false;
    this.#total += more;
    if (source === undefined) return true;
    // Only sources that hold something are remembered.
    if (held > 0) this.#held.set(source, held);
    else this.#held.delete(source);
    return true;
  }
}

/** The amount that one holder has of its source's share. */
export class Share {
  readonly #add: (more: number) => boolean;
  #amount = 0;

  /** Adds to the source's amount with `add`, which says whether that was possible. */
  constructor(add: (more: number) => boolean) {
    this.#add = add;
  }

  /** Takes more; `false`, and nothing is taken, if the source or all would hold too much. */
  grow(more: number): boolean {
    if (!this.#add(more)) return false;
    this.#amount += more;
    return true;
  }

  /** Gives a part back. */
  shrink(less: number): void {
    this.#amount -= less;
    this.#add(-less);
  }

  /** Gives back what exceeds an amount. */
  keep(amount: number): void {
    this.shrink(Math.max(0, this.#amount - amount));
  }

  /** Gives everything back, once. */
  release(): void {
    if (this.#amount > 0) this.shrink(this.#amount);
  }
}

/**
 * Returns the source of an IP address: the network that one customer gets. Private addresses have none and are counted among all
 * only: a proxy in front of the node, which counts for itself, brings everybody's connections. So is a peer of unknown address.
 */
export function sourceOf(address: string): string | undefined {
  const [bare = ""] = address.split("%");
  const ip = isPublic(bare) ? ipOf(bare) : undefined;
  if (ip === undefined) return undefined;
  return `${ip.widthBits} ${ip.value >> HOST_BITS[ip.widthBits]}`;
}
