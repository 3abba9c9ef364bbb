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
}

/** One benchmark. Everything is built in `prepare`, on all cores; `measure` runs on one. */
export interface Experiment {
  readonly name: string;
  readonly summary: string;
  prepare(): Promise<(run: Run) => Promise<Row[]>>;
}
