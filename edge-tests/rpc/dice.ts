/** Seeded generator of random numbers (sfc32): all runs with one seed are the same. */
export class Dice {
  #a: number;
  #b: number;
  #c = 0;
  #counter = 1;

  constructor(seed: number) {
    this.#a = seed | 0;
    this.#b = Math.floor(seed / 2 ** 32) | 0;
    for (let round = 0; round < 15; round++) this.bits();
  }

  /** Returns 32 random bits. */
  bits(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }

  /** Returns a number from 0 to 1, which is left out. */
  fraction(): number {
    return this.bits() / 2 ** 32;
  }

  /** Returns a whole number from 0 to `bound`, which is left out. */
  below(bound: number): number {
    return Math.floor(this.fraction() * bound);
  }

  /** Returns a whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  /** Returns true with this probability. */
  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  /** Returns one of a list. */
  pick<T>(list: readonly T[]): T {
    const picked = list[this.below(list.length)];
    if (picked === undefined) throw new Error("there is nothing to pick from");
    return picked;
  }

  /** Returns a list in another order, each equally likely. */
  shuffled<T>(list: readonly T[]): T[] {
    const shuffled = [...list];
    for (let at = shuffled.length - 1; at > 0; at--) {
      const other = this.below(at + 1);
      [shuffled[at], shuffled[other]] = [shuffled[other] as T, shuffled[at] as T];
    }
    return shuffled;
  }

  /** Returns random bytes. */
  bytes(length: number): Uint8Array<ArrayBuffer> {
    return Uint8Array.from({ length }, () => this.bits() & 0xff);
  }
}
