import { Share } from "../transports/shares.ts";

/** The amount that each caller holds of what there is for all. */
export class Quota {
  readonly #most: number;
  readonly #all: number;
  readonly #held: Map<string, number> = new Map();
  #total = 0;

  /** Lets each caller hold at most `most`, and all of them `all`. */
  constructor(most: number, all: number) {
    this.#most = most;
    this.#all = all;
  }

  /** Takes an amount for a caller; `undefined` if it or all would hold too much. */
  take(caller: string, amount: number): Share | undefined {
    const share = new Share((more) => this.#add(caller, more));
    return share.grow(amount) ? share : undefined;
  }

  #add(caller: string, more: number): boolean {
    const held = (this.#held.get(caller) ?? 0) + more;
    if (more > 0 && (held > this.#most || this.#total + more > this.#all)) return false;
    this.#total += more;
    if (held > 0) this.#held.set(caller, held);
    else this.#held.delete(caller);
    return true;
  }
}
