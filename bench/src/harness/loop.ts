import type { LoopResult } from "../runners/closed-loop.ts";
import { calibrate, type Effort } from "./measure.ts";
import type { TaskProcess } from "./process.ts";

export type { LoopResult };

/** Nanoseconds for one operation: elapsed, and of the processor. */
export interface Took {
  readonly ns: number;
  readonly cpu_ns: number;
}

/** A closed loop that can be run for any number of operations. */
export interface Loop {
  readonly name: string;
  run(count: number): Promise<LoopResult>;
}

/** One turn of a loop. */
export interface Sample extends LoopResult {
  /** Operations done. */
  readonly count: number;
}

/** A loop that one process runs. */
export function loopOf(name: string, process: TaskProcess, task: string): Loop {
  return { name, run: async (count) => parse(await process.request(task, count)) };
}

/** Runs a task on several processes at the same time, each a part of it, as if it were one. */
export async function runOnAll(
  processes: readonly TaskProcess[],
  task: string,
  count: number,
): Promise<LoopResult> {
  const share = Math.max(1, Math.round(count / processes.length));
  const results = await Promise.all(
    processes.map(async (process) => parse(await process.request(task, share))),
  );
  const mean = (of: (result: LoopResult) => number) =>
    results.reduce((sum, result) => sum + of(result), 0) / results.length;
  return {
    ns: Math.max(...results.map(({ ns }) => ns)),
    p50_us: mean(({ p50_us }) => p50_us),
    p99_us: Math.max(...results.map(({ p99_us }) => p99_us)),
    requests: results.reduce((sum, { requests }) => sum + requests, 0),
  };
}

function parse(answer: string): LoopResult {
  return JSON.parse(answer) as LoopResult;
}

/** Gives every loop its turn, round by round, the order turning; the samples are in the order of the loops. */
export async function interleaveLoops(
  loops: readonly Loop[],
  effort: Effort,
  progress: (text: string) => void,
): Promise<Sample[][]> {
  const counts: number[] = [];
  for (const loop of loops) {
    progress(`warming up: ${loop.name}`);
    const timed = { name: loop.name, run: async (count: number) => (await loop.run(count)).ns };
    counts.push(await calibrate(timed, effort));
  }
  const samples: Sample[][] = loops.map(() => []);
  for (let round = 0; round < effort.rounds; round += 1) {
    progress(`round ${round + 1} of ${effort.rounds}`);
    for (let turn = 0; turn < loops.length; turn += 1) {
      const index = (round + turn) % loops.length;
      const count = counts[index] ?? 1;
      const result = await loops[index]?.run(count);
      if (result !== undefined) samples[index]?.push({ ...result, count });
    }
  }
  return samples;
}

/** Gives every loop so many turns of as many operations, round by round, the order turning; samples as `interleaveLoops`. */
export async function takeTurns(
  loops: readonly Loop[],
  count: number,
  rounds: number,
  progress: (text: string) => void,
): Promise<Sample[][]> {
  const samples: Sample[][] = loops.map(() => []);
  for (let round = 0; round < rounds; round += 1) {
    for (let turn = 0; turn < loops.length; turn += 1) {
      const index = (round + turn) % loops.length;
      const loop = loops[index];
      if (loop === undefined) continue;
      progress(`round ${round + 1} of ${rounds}: ${loop.name}`);
      samples[index]?.push({ ...(await loop.run(count)), count });
    }
  }
  return samples;
}

/** Nanoseconds for one operation, of each sample. */
export function perOperation(samples: readonly Sample[]): number[] {
  return samples.map(({ ns, count }) => ns / count);
}

/** Nanoseconds of the processor for one operation, of each sample. */
export function cpuPerOperation(samples: readonly Sample[]): number[] {
  return samples.map(({ cpu_ns, count }) => (cpu_ns ?? Number.NaN) / count);
}

/** Nanoseconds that half of the operations took at most, of each sample. */
export function medians(samples: readonly Sample[]): number[] {
  return samples.map(({ p50_us }) => p50_us * 1000);
}

/** Requests to other nodes for one operation, of each sample. */
export function requestsEach(samples: readonly Sample[]): number[] {
  return samples.map(({ requests, count }) => requests / count);
}
