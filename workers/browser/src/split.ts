import { groupedBy, type Replica } from "./model.ts";

/** A version of a service: what it is to get of the requests, and what it got. */
export type Part = {
  version: string;
  /** Share by the weights, 0 to 1. */
  share: number;
  /** Share of the requests that were counted, or `undefined` without any. */
  measured: number | undefined;
};

/**
 * How requests are split by version, in the order of the versions: those with a weight below 1 get that, the others even
 * parts of the rest, as the core divides them.
 */
export function partsOf(replicas: readonly Replica[], requests: ReadonlyMap<string, number>): Part[] {
  const versions = groupedBy(replicas, ({ version }) => version);
  const known = [...versions].sort(([a], [b]) => (a < b ? -1 : 1));
  const weights = known.map(([, of]) => average(of.map(({ weight }) => weight)));
  const wholes = weights.filter((weight) => weight >= 1).length;
  const asked = sum(weights.filter((weight) => weight < 1));
  const drawn = weights.map((weight) => (weight < 1 ? weight * Math.max(wholes, 1) : Math.max(0, 1 - asked)));
  const counts = known.map(([, of]) => sum(of.map(({ peer }) => requests.get(peer) ?? 0)));
  const [allDrawn, allCounted] = [sum(drawn), sum(counts)];
  return known.map(([version], index) => ({
    version,
    share: allDrawn === 0 ? 0 : (drawn[index] ?? 0) / allDrawn,
    measured: allCounted === 0 ? undefined : (counts[index] ?? 0) / allCounted,
  }));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function average(numbers: readonly number[]): number {
  return numbers.length === 0 ? 0 : sum(numbers) / numbers.length;
}
