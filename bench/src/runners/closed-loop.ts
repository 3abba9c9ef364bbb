import process from "node:process";

/** What a closed loop came to, as a runner tells the harness. */
export interface LoopResult {
  /** Elapsed nanoseconds from the first operation to the last. */
  readonly ns: number;
  /** Nanoseconds of the processor, in all threads, of who tells it. */
  readonly cpu_ns?: number;
  /** Median and 99th percentile of the microseconds that one operation took. */
  readonly p50_us: number;
  readonly p99_us: number;
  /** Requests sent to other nodes. */
  readonly requests: number;
}

/** Repeats `work` `count` times, always `window` at a time: as soon as one is done the next begins. */
export async function closedLoop(
  window: number,
  count: number,
  work: (index: number) => Promise<void>,
  requests: () => number = () => 0,
): Promise<LoopResult> {
  const took = new Float64Array(count);
  let next = 0;
  const requestsBefore = requests();
  const begin = process.hrtime.bigint();
  const worker = async () => {
    for (let index = next++; index < count; index = next++) {
      const before = process.hrtime.bigint();
      await work(index);
      took[index] = Number(process.hrtime.bigint() - before);
    }
  };
  await Promise.all(Array.from({ length: window }, worker));
  const ns = Number(process.hrtime.bigint() - begin);
  took.sort();
  const quantile = (q: number) => (took[Math.floor((count - 1) * q)] ?? 0) / 1000;
  return { ns, p50_us: quantile(0.5), p99_us: quantile(0.99), requests: requests() - requestsBefore };
}
