import { readdirSync, readFileSync } from "node:fs";

/** Nanoseconds of processor that a process has used in all its threads, or `undefined` where nobody tells. */
export function cpuTime(pid: number): number | undefined {
  let threads: string[];
  try {
    threads = readdirSync(`/proc/${pid}/task`);
  } catch {
    return undefined;
  }
  let total = 0;
  for (const thread of threads) {
    try {
      total += Number.parseInt(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8"), 10);
    } catch {
      // The thread ended between the listing and the reading; what it used is lost.
    }
  }
  return total > 0 ? total : undefined;
}

/** Measures what a process spends on some work: processor time where the system tells it, else elapsed time. */
export async function spent(pid: number, work: () => Promise<unknown>): Promise<number> {
  const cpuBefore = cpuTime(pid);
  const before = process.hrtime.bigint();
  await work();
  const elapsed = Number(process.hrtime.bigint() - before);
  const cpuAfter = cpuTime(pid);
  return cpuBefore === undefined || cpuAfter === undefined ? elapsed : cpuAfter - cpuBefore;
}
