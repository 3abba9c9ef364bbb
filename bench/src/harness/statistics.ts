/** Median and quartiles of samples. */
export interface Figure {
  readonly median: number;
  readonly lower: number;
  readonly upper: number;
}

/** The value below which the fraction `q` of the sorted samples lies, interpolated. */
function quantile(sorted: readonly number[], q: number): number {
  const position = (sorted.length - 1) * q;
  const below = sorted[Math.floor(position)] ?? Number.NaN;
  const above = sorted[Math.ceil(position)] ?? Number.NaN;
  return below + (above - below) * (position - Math.floor(position));
}

/** Summarises samples. */
export function summarise(samples: readonly number[]): Figure {
  if (samples.length === 0) throw new Error("no samples to summarise");
  const sorted = [...samples].sort((a, b) => a - b);
  return { median: quantile(sorted, 0.5), lower: quantile(sorted, 0.25), upper: quantile(sorted, 0.75) };
}

/** The values below which the fractions lie, in the order of the fractions. */
export function quantiles(samples: readonly number[], fractions: readonly number[]): number[] {
  const sorted = [...samples].sort((a, b) => a - b);
  return fractions.map((fraction) => quantile(sorted, fraction));
}

/** The mean of samples. */
export function mean(samples: readonly number[]): number {
  return samples.reduce((sum, value) => sum + value, 0) / samples.length;
}

/** The standard deviation of samples. */
export function deviation(samples: readonly number[]): number {
  const middle = mean(samples);
  const squares = samples.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  return Math.sqrt(squares / Math.max(1, samples.length - 1));
}

/** The mean of samples, and the standard deviation on either side in place of quartiles. */
export function meanAndDeviation(samples: readonly number[]): Figure {
  if (samples.length === 0) throw new Error("no samples to summarise");
  const [middle, spread] = [mean(samples), deviation(samples)];
  return { median: middle, lower: middle - spread, upper: middle + spread };
}

/** A figure that was not sampled but read off. */
export function exactly(value: number): Figure {
  return { median: value, lower: value, upper: value };
}

/** Median of the ratios of samples taken in the same round, so that a slow spell of the machine hits both. */
export function pairedRatio(ours: readonly number[], peer: readonly number[]): number {
  const ratios = ours.map((value, round) => value / (peer[round] ?? Number.NaN));
  return summarise(ratios).median;
}
