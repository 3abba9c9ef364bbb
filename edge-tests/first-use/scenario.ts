import type { Report } from "./report.ts";
import type { Tools } from "./tools.ts";

/** What a scenario is played with. */
export interface Stage {
  readonly report: Report;
  readonly tools: Tools;
  /** The versions of Node that are tried. */
  readonly nodes: readonly (keyof Tools["nodes"])[];
}

/** Plays what a newcomer does on one platform. */
export type Scenario = (stage: Stage) => Promise<void>;
