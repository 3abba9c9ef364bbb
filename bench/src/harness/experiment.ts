import type { Effort } from "./measure.ts";
import type { Row } from "./row.ts";

/** What an experiment gets from the command line. */
export interface Run {
  /** How long to measure. */
  readonly effort: Effort;
  /** Whether the figures only need to be rough. */
  readonly quick: boolean;
  /** Says on standard error what is being done. */
  readonly progress: (text: string) => void;
  /** Takes a drawing of the result, an SVG. */
  readonly plot: (svg: string) => void;
}

/** One benchmark. Everything is built in `prepare`, on all cores; what it returns measures. */
export interface Experiment {
  /** Whether it measures on all cores, as networks of processes do, rather than on one. */
  readonly onAllCores?: boolean;
  readonly name: string;
  readonly summary: string;
  prepare(): Promise<(run: Run) => Promise<Row[]>>;
}
