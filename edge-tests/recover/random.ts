import { createHash } from "node:crypto";

/** Choices that follow from a seed: the same seed makes the same ones. */
export class Random {
  readonly #seed: string;
  #count = 0;

  constructor(seed: string) {
    this.#seed = seed;
  }

  /** 32 bytes as hex digits. */
  hex(): string {
    this.#count += 1;
    return createHash("sha256").update(`${this.#seed}/${this.#count}`).digest("hex");
  }

  /** A whole number from 0 to `below`, which is left out. */
  below(below: number): number {
    return Number.parseInt(this.hex().slice(0, 8), 16) % below;
  }

  /** One of a list. */
  pick<T>(list: readonly [T, ...T[]]): T {
    return list[this.below(list.length)] ?? list[0];
  }
}
