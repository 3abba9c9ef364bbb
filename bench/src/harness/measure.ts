/** Something that can be repeated and says how many nanoseconds the repetitions took. */
export interface Work {
  readonly name: string;
  run(count: number): Promise<number>;
}

/** How long to measure. */
export interface Effort {
  /** How often each work gets its turn. */
  readonly rounds: number;
  /** About how long one turn lasts. */
  readonly roundMs: number;
  /** Turns before the first round: engines that compile while they run get faster for about a second. */
  readonly warmTurns: number;
}

/** The effort of a full run and of `--quick`. */
export const FULL: Effort = { rounds: 21, roundMs: 250, warmTurns: 6 };
export const QUICK: Effort = { rounds: 5, roundMs: 60, warmTurns: 18 };

/** Repetitions grow by at most this factor while they are calibrated, because the first ones are still cold. */
const GROWTH = 8;

/** How many repetitions fill a turn; the first one also pays for the preparation and does not count. */
export async function calibrate(work: Work, { roundMs, warmTurns }: Effort): Promise<number> {
  const target = roundMs * 1e6;
  await work.run(1);
  let count = 1;
  for (let turns = 0; turns < warmTurns; ) {
    const took = await work.run(count);
    if (took >= target / 2) turns += 1;
    const scaled = count * Math.min(GROWTH, target / Math.max(1, took));
    count = Math.max(1, Math.round(took >= target / 2 ? scaled : Math.max(count + 1, scaled)));
  }
  return count;
}

/**
 * Gives every work its turn, round by round, the order turning from round to round, so that a slow spell of the machine
 * hits all of them. Returns nanoseconds a repetition, one sample a round, in the order of the works.
 */
export async function interleave(
  works: readonly Work[],
  effort: Effort,
  progress: (text: string) => void,
): Promise<number[][]> {
  const counts: number[] = [];
  for (const work of works) {
    progress(`warming up: ${work.name}`);
    counts.push(await calibrate(work, effort));
  }
  const samples: number[][] = works.map(() => []);
  for (let round = 0; round < effort.rounds; round += 1) {
    progress(`round ${round + 1} of ${effort.rounds}`);
    for (let turn = 0; turn < works.length; turn += 1) {
      const index = (round + turn) % works.length;
      const count = counts[index] ?? 1;
      const took = await works[index]?.run(count);
      if (took !== undefined) samples[index]?.push(took / count);
    }
  }
  return samples;
}
