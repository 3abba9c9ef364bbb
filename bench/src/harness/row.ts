import { type Figure, pairedRatio, summarise } from "./statistics.ts";

/** A bar that a row must reach. */
export interface Bar {
  /** The bar in words, such as `ratio >= 2.5`. */
  readonly text: string;
  /** Whether a row reaches it. */
  readonly met: (row: { ours: number; peer: number | null; ratio: number | null }) => boolean;
}

/** One line of a result. */
export interface Row {
  readonly what: string;
  readonly unit: string;
  readonly ours: Figure;
  readonly peer: Figure | null;
  readonly peerName: string | null;
  readonly ratio: number | null;
  readonly bar: Bar | null;
}

/** How nanoseconds for one repetition become the value of a unit. */
const FROM_NANOSECONDS = {
  "1/s": (ns: number) => 1e9 / ns,
  ns: (ns: number) => ns,
  us: (ns: number) => ns / 1e3,
  ms: (ns: number) => ns / 1e6,
  s: (ns: number) => ns / 1e9,
} as const;

/** A unit of time or rate. */
export type TimeUnit = keyof typeof FROM_NANOSECONDS;

/** Whether a row reaches its bar; `null` when it has none. */
export function isMet(row: Row): boolean | null {
  const { ours, peer, ratio, bar } = row;
  return bar === null ? null : bar.met({ ours: ours.median, peer: peer?.median ?? null, ratio });
}

/** A row of what was timed: nanoseconds a repetition, ours and a peer's from the same rounds. */
export function timed(
  what: string,
  unit: TimeUnit,
  ours: readonly number[],
  peer?: { readonly name: string; readonly samples: readonly number[] } | null,
  bar: Bar | null = null,
): Row {
  const convert = FROM_NANOSECONDS[unit];
  const values = ours.map(convert);
  const theirs = peer?.samples.map(convert);
  return {
    what,
    unit,
    ours: summarise(values),
    peer: theirs === undefined ? null : summarise(theirs),
    peerName: peer?.name ?? null,
    ratio: theirs === undefined ? null : pairedRatio(values, theirs),
    bar,
  };
}

/** A row of one figure that has no peer. */
export function figure(what: string, unit: string, ours: Figure, bar: Bar | null = null): Row {
  return { what, unit, ours, peer: null, peerName: null, ratio: null, bar };
}

/** Ours divided by the peer's must be at least this. */
export function ratioAtLeast(least: number): Bar {
  return { text: `ratio >= ${least}`, met: ({ ratio }) => ratio !== null && ratio >= least };
}

/** Ours divided by the peer's must be at most this. */
export function ratioAtMost(most: number): Bar {
  return { text: `ratio <= ${most}`, met: ({ ratio }) => ratio !== null && ratio <= most };
}

/** Ours must be at least this. */
export function oursAtLeast(least: number): Bar {
  return { text: `ours >= ${least}`, met: ({ ours }) => ours >= least };
}

/** Ours must be at most this. */
export function oursAtMost(most: number): Bar {
  return { text: `ours <= ${most}`, met: ({ ours }) => ours <= most };
}

/** Ours must be below this. */
export function oursBelow(limit: number): Bar {
  return { text: `ours < ${limit}`, met: ({ ours }) => ours < limit };
}

/** Ours may exceed the peer's by at most this. */
export function excessAtMost(most: number): Bar {
  return { text: `ours - peer <= ${most}`, met: ({ ours, peer }) => peer !== null && ours - peer <= most };
}
