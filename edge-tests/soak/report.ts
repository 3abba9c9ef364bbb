/** The bars of a soak test, and its tables. */
import type { Exported } from "./capsule.ts";
import { CONTROL } from "./control-process.ts";
import type { Load, Tally } from "./load.ts";
import { type Life, type Sample, type Trend, trendOf } from "./samples.ts";

/** Most growth of memory after warming up, in MB an hour; in workerd beyond that of a Worker of no mesh with as many fetches. */
const GROWTH_MB = 5;
/** Most descriptors and threads more at the end of a run than when it was warm. */
const MORE_DESCRIPTORS = 10;
const MORE_THREADS = 2;
/** Most lines that a process logs in a minute, on average. */
const LINES_A_MINUTE = 30;
/** Share of a life that is warming up. */
const WARM_UP = 0.25;
/** Shorter lives, as those of members that are killed, are shown without a bar for memory. */
const LEAST_LIFE = 0.5;
/** With fewer looks at a heap no line is fitted. */
const LEAST_HEAPS = 4;
/** A line through fewer samples says nothing. */
const LEAST_SAMPLES = 6;
/** Reasons that are shown. */
const MOST_REASONS = 25;
const HOUR_S = 3_600;

/** A thing that is right or wrong. */
export interface Verdict {
  readonly what: string;
  readonly ok: boolean;
}

/** Judges the calls. */
export function judgeCalls(load: Load): Verdict[] {
  const verdicts = [...load.tallies].map(([kind, { failed }]): Verdict => {
    if (kind === "post") return { what: "a POST is either answered or may have been sent", ok: true };
    return { what: `no ${kind} failed${failed === 0 ? "" : ` (${failed} did)`}`, ok: failed === 0 };
  });
  const duplicates = [...load.posted].filter(([, count]) => count > 1);
  const lost = load.acknowledged.post.filter((id) => !load.posted.has(id));
  verdicts.push(
    { what: `no POST arrived twice${listed(duplicates.map(([id]) => id))}`, ok: duplicates.length === 0 },
    { what: `each POST that was answered arrived${listed(lost)}`, ok: lost.length === 0 },
  );
  return verdicts;
}

/** Judges what the replicas hold. */
export function judgeExports(exports: readonly Exported[], appended: readonly string[]): Verdict[] {
  const isSame = new Set(exports.map(({ hash }) => hash)).size === 1;
  const sizes = exports.map(({ replica, bytes, hash }) => `${replica} ${bytes.length} bytes ${hash}`);
  const missing = exports.flatMap(({ replica, bytes }) =>
    appended.filter((id) => !bytes.includes(`<${id}>`)).map((id) => `${id} at ${replica}`),
  );
  return [
    { what: `three exports are identical: ${sizes.join(", ")}`, ok: isSame && exports.length === 3 },
    { what: `all ${appended.length} appends are in them${listed(missing)}`, ok: missing.length === 0 },
  ];
}

/** Judges what processes take, and prints a line for each. */
export function judgeLives(lives: readonly Life[], total_s: number, tell: (line: string) => void): Verdict[] {
  const heads = ["MB", "at end", "MB/h", "+-", "descriptors", "threads", "lines/min", "heap MB/h"];
  tell(`${"process".padEnd(24)}${"life".padStart(8)}${heads.map((head) => head.padStart(12)).join("")}`);
  const longLives = longest(lives).filter(({ samples }) => samples.length >= LEAST_SAMPLES);
  const control = longLives.find(({ label }) => label === CONTROL);
  const ofPlatform = control === undefined ? 0 : Math.max(0, memoryTrend(control).slope);
  return longLives.flatMap((life) => {
    const isWorker = life.label.startsWith("workerd");
    const verdicts = judgeLife(life, total_s, GROWTH_MB + (isWorker ? ofPlatform : 0), tell);
    return life.label === CONTROL ? [] : verdicts;
  });
}

/** When a process is warm. */
function warmFrom(life: Life): number {
  return (life.samples[0]?.at_s ?? 0) + WARM_UP * lengthOf(life);
}

function memoryTrend(life: Life): Trend {
  const from_s = warmFrom(life);
  const warm = life.samples.filter(({ at_s }) => at_s >= from_s);
  return trendOf(warm.map(({ at_s, rss_mb }) => ({ at_s, value: rss_mb })));
}

/** The longest life of each process. */
function longest(lives: readonly Life[]): Life[] {
  const best = new Map<string, Life>();
  for (const life of lives) {
    if (lengthOf(life) > lengthOf(best.get(life.label))) best.set(life.label, life);
  }
  return [...best.values()];
}

function lengthOf(life: Life | undefined): number {
  return (life?.samples.at(-1)?.at_s ?? 0) - (life?.samples[0]?.at_s ?? 0);
}

function judgeLife(life: Life, total_s: number, growth_mb: number, tell: (line: string) => void): Verdict[] {
  const length_s = lengthOf(life);
  const from_s = warmFrom(life);
  const warm = life.samples.filter(({ at_s }) => at_s >= from_s);
  const over = (value: (sample: Sample) => number): Trend =>
    trendOf(warm.map((sample) => ({ at_s: sample.at_s, value: value(sample) })));
  const memory = memoryTrend(life);
  const descriptors = over((sample) => sample.descriptors);
  const threads = over((sample) => sample.threads);
  const lines = ((warm.at(-1)?.lines ?? 0) - (warm[0]?.lines ?? 0)) / ((0.75 * length_s) / 60);
  const heaps = life.heaps.filter(({ at_s }) => at_s >= from_s);
  const heap = heaps.length < LEAST_HEAPS ? undefined : trendOf(heaps);
  const cells = [
    ...[memory.first, memory.last, memory.slope, memory.noise].map((value) => value.toFixed(1)),
    `${descriptors.first.toFixed(0)}-${descriptors.last.toFixed(0)}`,
    `${threads.first.toFixed(0)}-${threads.last.toFixed(0)}`,
    lines.toFixed(1),
    heap === undefined ? "" : `${heap.slope.toFixed(1)}+-${heap.noise.toFixed(1)}`,
  ];
  const minutes = `${(length_s / 60).toFixed(1)} min`;
  tell(`${life.label.padEnd(24)}${minutes.padStart(8)}${cells.map((cell) => cell.padStart(12)).join("")}`);
  if (length_s < LEAST_LIFE * total_s) return [];
  const certain = (trend: Trend): number => ((trend.slope - trend.noise) * 0.75 * length_s) / HOUR_S;
  return [
    {
      what: `${life.label} grows by at most ${growth_mb.toFixed(0)} MB/h`,
      ok: memory.slope - memory.noise <= growth_mb,
    },
    { what: `${life.label} keeps its descriptors`, ok: certain(descriptors) <= MORE_DESCRIPTORS },
    { what: `${life.label} keeps its threads`, ok: certain(threads) <= MORE_THREADS },
    { what: `${life.label} logs at most ${LINES_A_MINUTE} lines a minute`, ok: lines <= LINES_A_MINUTE },
  ];
}

/** Prints what became of the calls. */
export function tellCalls({ tallies, failures, retries }: Load, tell: (line: string) => void): void {
  const heads = ["calls", "ok", "retried", "failed", "unheard", "median ms", "99 % ms"];
  tell(`${"kind".padEnd(10)}${heads.map((head) => head.padStart(11)).join("")}`);
  for (const [kind, tally] of tallies) {
    const { calls, ok, retried, failed, unheard } = tally;
    const times = [quantile(tally, 0.5), quantile(tally, 0.99)].map((time) => time.toFixed(0));
    const cells = [calls, ok, retried, failed, unheard, ...times];
    tell(`${kind.padEnd(10)}${cells.map((cell) => `${cell}`.padStart(11)).join("")}`);
  }
  tellReasons("failed", failures, tell);
  tellReasons("tried again", retries, tell);
}

function tellReasons(what: string, reasons: ReadonlyMap<string, number>, tell: (line: string) => void): void {
  const sorted = [...reasons].toSorted(([, one], [, other]) => other - one);
  for (const [reason, count] of sorted.slice(0, MOST_REASONS)) tell(`${what} ${count} x ${reason}`);
  if (sorted.length > MOST_REASONS) tell(`${what}: ${sorted.length - MOST_REASONS} other reasons`);
}

function quantile({ took_ms }: Tally, share: number): number {
  return took_ms.toSorted((one, other) => one - other)[Math.floor(took_ms.length * share)] ?? 0;
}

/** Some of a list in brackets, if there are any. */
export function listed(ids: readonly string[]): string {
  return ids.length === 0 ? "" : ` (${ids.length}: ${ids.slice(0, 5).join(", ")})`;
}
