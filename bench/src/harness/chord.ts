import process from "node:process";

import { Problem } from "./problem.ts";
import { TaskProcess } from "./process.ts";

/** Sizes of the paper's experiments on routed messages, and those of a run that fits into minutes. */
export interface Scale {
  readonly members: number;
  /** Members that are pinged, and how often all of it is repeated. */
  readonly responders: number;
  readonly series: number;
  readonly runs: number;
  readonly pings: number;
  readonly packets: number;
  /** Potatoes at a time, and how long each number of them is passed on. */
  readonly potatoes: readonly number[];
  readonly potatoMs: number;
}

const PAPER: Scale = {
  members: 255,
  responders: 250,
  series: 12,
  runs: 10,
  pings: 10,
  packets: 1000,
  potatoes: [10, 20, 30, 40, 50, 60, 70, 80, 160],
  potatoMs: 60_000,
};
const SCALED: Scale = { ...PAPER, series: 2, runs: 3, packets: 200, potatoMs: 4000 };
const QUICK: Scale = {
  ...SCALED,
  members: 24,
  responders: 8,
  series: 1,
  runs: 2,
  potatoes: [4, 16],
  potatoMs: 1000,
};

/** The sizes of a run; `CHORD_FULL=1` in the environment asks for the paper's. */
export function scaleOf(quick: boolean): Scale {
  if (quick) return QUICK;
  return process.env.CHORD_FULL === "1" ? PAPER : SCALED;
}

/** How a ring admits members. */
export type Admission = "open" | "closed";
export const ADMISSIONS: readonly Admission[] = ["closed", "open"];

/** Two rings of so many members, each in a process of its own. */
export class Rings implements AsyncDisposable {
  readonly #processes: ReadonlyMap<Admission, TaskProcess>;

  private constructor(processes: ReadonlyMap<Admission, TaskProcess>) {
    this.#processes = processes;
  }

  /** Starts both and waits until their members know their fingers. */
  static async start(binary: string, members: number, progress: (text: string) => void): Promise<Rings> {
    const started = new Map(
      ADMISSIONS.map((admission) => [admission, new TaskProcess(admission, binary, [])]),
    );
    const rings = new Rings(started);
    try {
      for (const [admission, task] of started) {
        progress(`starting ${members} members of the ${admission} ring`);
        await task.request(`ring/${admission}`, members);
      }
      progress("waiting for fingers");
      await Promise.all([...started.values()].map((task) => task.request("settle/", 1)));
      return rings;
    } catch (error) {
      await rings[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Has one ring do a task. */
  async ask(admission: Admission, task: string, count: number): Promise<string> {
    const found = this.#processes.get(admission);
    if (found === undefined) throw new Problem(`there is no ${admission} ring`);
    return found.request(task, count);
  }

  /** Has both rings do a task, one after the other, the closed one first in even turns. */
  async inTurn(turn: number, work: (admission: Admission) => Promise<void>): Promise<void> {
    const order = turn % 2 === 0 ? ADMISSIONS : ADMISSIONS.toReversed();
    for (const admission of order) await work(admission);
  }

  /** Ends both. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const task of this.#processes.values()) await task[Symbol.asyncDispose]();
  }
}
