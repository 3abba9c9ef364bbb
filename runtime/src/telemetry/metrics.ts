import type { Attributes } from "./span.ts";

/** Upper bounds of the buckets of durations, in seconds, as OpenTelemetry recommends them for HTTP. */
export const BOUNDS: readonly number[] = [
  0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
];
/** Series of one instrument; what comes beyond is counted together, so that memory stays bounded. */
const MAX_SERIES = 512;
/** The attribute of the series that counts what is beyond. */
const OVERFLOW: Attributes = { "otel.metric.overflow": true };

/** The durations of what happened under one set of attributes. */
export interface Durations {
  readonly attributes: Attributes;
  /** How many there were. */
  count: number;
  /** Their sum in seconds. */
  sum: number;
  /** How many there were between the bounds, one more than there are bounds. */
  readonly buckets: number[];
}

/** A number under one set of attributes. */
export interface Amount {
  readonly attributes: Attributes;
  value: number;
}

/** What an instrument is called and means. */
export interface Description {
  /** Name in OpenTelemetry. */
  readonly name: string;
  /** What it tells. */
  readonly help: string;
  /** The unit, as UCUM writes it. */
  readonly unit: string;
}

class Series<T> {
  readonly #series: Map<string, T> = new Map();
  readonly #make: (attributes: Attributes) => T;

  constructor(make: (attributes: Attributes) => T) {
    this.#make = make;
  }

  of(attributes: Attributes): T {
    const key = JSON.stringify(attributes);
    const known = this.#series.get(key);
    if (known !== undefined) return known;
    if (this.#series.size >= MAX_SERIES && attributes !== OVERFLOW) return this.of(OVERFLOW);
    const made = this.#make(attributes);
    this.#series.set(key, made);
    return made;
  }

  all(): T[] {
    return [...this.#series.values()];
  }
}

/** Counts durations in buckets. */
export class Histogram {
  readonly type = "histogram";
  readonly description: Description;
  readonly #series: Series<Durations> = new Series((attributes) => {
    return { attributes, count: 0, sum: 0, buckets: new Array<number>(BOUNDS.length + 1).fill(0) };
  });

  constructor(description: Description) {
    this.description = description;
  }

  /** Counts a duration. */
  record(seconds: number, attributes: Attributes): void {
    const series = this.#series.of(attributes);
    const found = BOUNDS.findIndex((bound) => seconds <= bound);
    const index = found === -1 ? BOUNDS.length : found;
    series.count++;
    series.sum += seconds;
    series.buckets[index] = (series.buckets[index] ?? 0) + 1;
  }

  /** All series. */
  series(): Durations[] {
    return this.#series.all();
  }
}

/** A number that only grows, or one that goes up and down. */
export class Counter {
  readonly type: "counter" | "gauge";
  readonly description: Description;
  readonly #series: Series<Amount> = new Series((attributes) => ({ attributes, value: 0 }));

  constructor(type: "counter" | "gauge", description: Description) {
    this.type = type;
    this.description = description;
  }

  /** Adds to the number. */
  add(amount: number, attributes: Attributes = {}): void {
    this.#series.of(attributes).value += amount;
  }

  /** Sets the number. */
  set(value: number, attributes: Attributes = {}): void {
    this.#series.of(attributes).value = value;
  }

  /** All series. */
  series(): Amount[] {
    return this.#series.all();
  }
}

/** Anything that is measured. */
export type Instrument = Histogram | Counter;
