/** What processes take, read from /proc every ten seconds, and whether it grows. */
import { readdirSync, readFileSync, statSync } from "node:fs";

/** A look at a process. */
export interface Sample {
  /** Seconds since the test began. */
  readonly at_s: number;
  readonly rss_mb: number;
  readonly descriptors: number;
  readonly threads: number;
  /** Lines of its log so far. */
  readonly lines: number;
}

/** A process, from its start to its end. */
export interface Life {
  readonly label: string;
  readonly pid: number;
  readonly samples: Sample[];
  /** Memory of its JavaScript heap after collections, in MB. */
  readonly heaps: { readonly at_s: number; readonly value: number }[];
}

/** A line through samples. */
export interface Trend {
  /** Per hour. */
  readonly slope: number;
  /** How far the slope may be off by chance, two standard errors, per hour. */
  readonly noise: number;
  readonly first: number;
  readonly last: number;
}

const PAGE_MB: number = 4096 / 1e6;
const HOUR_S = 3_600;

/** Processes of a group with a name. */
export function pidsOf(group: number, name: string): number[] {
  return readdirSync("/proc").flatMap((entry) => {
    if (!/^\d+$/.test(entry)) return [];
    const stat = read(`/proc/${entry}/stat`);
    const [, comm, rest = ""] = /^\d+ \((.*)\) (.*)$/s.exec(stat) ?? [];
    return comm === name && Number(rest.split(" ")[2]) === group ? [Number(entry)] : [];
  });
}

/** Counts the lines of logs, each of which is read on from where it was left. */
export class LineCounter {
  readonly #counts: Map<string, { bytes: number; lines: number }> = new Map();

  /** Lines of a log. */
  count(file: string): number {
    const before = this.#counts.get(file) ?? { bytes: 0, lines: 0 };
    const { size } = statSync(file, { throwIfNoEntry: false }) ?? { size: 0 };
    if (size === before.bytes) return before.lines;
    const text = readFileSync(file).subarray(before.bytes, size).toString("latin1");
    const now = { bytes: size, lines: before.lines + text.split("\n").length - 1 };
    this.#counts.set(file, now);
    return now.lines;
  }
}

/** Looks at a process; nothing if it has ended. */
export function sampleOf(pid: number, at_s: number, lines: number): Sample | undefined {
  const [, resident] = read(`/proc/${pid}/statm`).split(" ");
  const threads = /Threads:\s+(\d+)/.exec(read(`/proc/${pid}/status`))?.[1];
  // One that has ended and was not waited for yet takes nothing.
  if (resident === undefined || Number(resident) === 0 || threads === undefined) return undefined;
  return {
    at_s,
    rss_mb: Number(resident) * PAGE_MB,
    descriptors: countIn(`/proc/${pid}/fd`),
    threads: Number(threads),
    lines,
  };
}

/**
 * The line of least squares through samples, and its noise: two standard errors of the slope, for as many independent samples as the
 * correlation between neighbours leaves. Garbage collection makes a saw of what a process takes, and a saw of few teeth proves nothing.
 */
export function trendOf(points: readonly { at_s: number; value: number }[]): Trend {
  const { length } = points;
  const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / length;
  const middle_s = mean(points.map(({ at_s }) => at_s));
  const middle = mean(points.map(({ value }) => value));
  const spread = points.reduce((sum, { at_s }) => sum + (at_s - middle_s) ** 2, 0);
  const slope =
    points.reduce((sum, { at_s, value }) => sum + (at_s - middle_s) * (value - middle), 0) / spread;
  const rest = points.map(({ at_s, value }) => value - middle - slope * (at_s - middle_s));
  const squares = rest.reduce((sum, value) => sum + value ** 2, 0);
  const products = rest.slice(1).reduce((sum, value, at) => sum + value * (rest[at] ?? 0), 0);
  const correlation = squares === 0 ? 0 : Math.min(0.95, Math.max(0, products / squares));
  const independent = Math.max(3, (length * (1 - correlation)) / (1 + correlation));
  const error = Math.sqrt(squares / length / spread) * Math.sqrt(length / (independent - 2));
  const at = (at_s: number): number => middle + slope * (at_s - middle_s);
  return {
    slope: slope * HOUR_S,
    noise: 2 * error * HOUR_S,
    first: at(points[0]?.at_s ?? 0),
    last: at(points.at(-1)?.at_s ?? 0),
  };
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    // It has ended.
    return "";
  }
}

function countIn(folder: string): number {
  try {
    return readdirSync(folder).length;
  } catch {
    return 0;
  }
}
