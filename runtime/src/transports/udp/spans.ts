import type { Span } from "./packet.ts";

interface Kept {
  from: number;
  to: number;
  /** When it last grew, in a count of its own. */
  grown: number;
}

/** A set of offsets as spans, ascending and without touching each other. Their number is bounded. */
export class Spans {
  readonly #most: number;
  readonly #spans: Kept[] = [];
  #grown = 0;

  /** Keeps at most so many spans. */
  constructor(most: number) {
    this.#most = most;
  }

  /** How many spans there are. */
  get size(): number {
    return this.#spans.length;
  }

  /** The offset behind the last span; 0 when there is none. */
  get end(): number {
    return this.#spans.at(-1)?.to ?? 0;
  }

  /** Where the span that holds or touches an offset ends; the offset itself when there is none. */
  endOf(offset: number): number {
    const span = this.#spans[this.#search(offset)];
    return span !== undefined && span.from <= offset ? span.to : offset;
  }

  /** Adds a span and returns the one that it is part of now; `undefined` when there would be too many. */
  add(from: number, to: number): Span | undefined {
    const spans = this.#spans;
    const at = this.#search(from);
    const first = spans[at];
    this.#grown++;
    if (first === undefined || first.from > to) {
      if (spans.length >= this.#most) return undefined;
      const span = { from, to, grown: this.#grown };
      spans.splice(at, 0, span);
      return span;
    }
    let behind = at + 1;
    for (let next = spans[behind]; next !== undefined && next.from <= to; next = spans[behind]) behind++;
    first.from = Math.min(first.from, from);
    first.to = Math.max(spans[behind - 1]?.to ?? 0, to);
    first.grown = this.#grown;
    if (behind > at + 1) spans.splice(at + 1, behind - at - 1);
    return first;
  }

  /** Drops what is below an offset. */
  dropBelow(offset: number): void {
    let count = 0;
    for (let first = this.#spans[0]; first !== undefined && first.to <= offset; first = this.#spans[count]) {
      count++;
    }
    if (count > 0) this.#spans.splice(0, count);
    const first = this.#spans[0];
    if (first !== undefined && first.from < offset) first.from = offset;
  }

  /** The spans that grew last, at most so many, ascending. They are not copies. */
  latest(most: number): readonly Span[] {
    if (this.#spans.length <= most) return this.#spans;
    const latest = [...this.#spans].sort((left, right) => right.grown - left.grown).slice(0, most);
    return latest.sort((left, right) => left.from - right.from);
  }

  /** The place of the first span that ends at an offset or behind it. */
  #search(offset: number): number {
    let low = 0;
    let high = this.#spans.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#spans[middle] as Kept).to >= offset) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
