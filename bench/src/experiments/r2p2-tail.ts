import { InstancePool } from "../../../edge-tests/rpc/modules.ts";
import type { RpcSelection } from "../../../runtime/src/codec/rpc.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { lines } from "../harness/plot.ts";
import { type Bar, figure, type Row, ratioAtMost } from "../harness/row.ts";
import { meanAndDeviation, pairedRatio } from "../harness/statistics.ts";
import {
  type Arrivals,
  DISTRIBUTIONS,
  type Distribution,
  drawArrivals,
  tailOfSingleQueue,
  tailThroughRouter,
} from "../rpc/tail.ts";

/** Replicas of one worker each. */
const REPLICAS = [1, 4, 16] as const;
/** Where the bars are. */
const COMPARED = { replicas: 16, distribution: "bimodal" } as const;
/** JBSQ(3) may take so much of what random and one queue take. */
const TO_RANDOM = 0.22;
const TO_SINGLE_QUEUE = 1.25;
const BOUND = 3;
/** Sixteen replicas, a router, clients. */
const MACHINES = 24;

/** Requests of a seed, and seeds, where the bars are and elsewhere. */
const FULL = { compared: { requests: 200_000, seeds: 5 }, others: { requests: 60_000, seeds: 3 } };
const QUICK = { compared: { requests: 30_000, seeds: 2 }, others: { requests: 6_000, seeds: 1 } };

const SELECTIONS: Readonly<Record<string, RpcSelection>> = {
  random: "random",
  "round robin": "roundRobin",
  "power of two": "powerOfTwo",
  probed: "probed",
  "shortest queue": "shortestQueue",
  "JBSQ(3)": "bounded",
};
const SINGLE_QUEUE = "a single queue";
const OURS = "JBSQ(3)";
const UNIT = "mean service times";

/** 99th percentiles of one seed after the other, by how the replica was chosen. */
type Tails = ReadonlyMap<string, readonly number[]>;

interface Measured {
  readonly replicas: number;
  readonly distribution: Distribution;
  readonly tails: Tails;
}

function measureOne(pool: InstancePool, replicas: number, distribution: Distribution, run: Run): Measured {
  const isCompared = replicas === COMPARED.replicas && distribution === COMPARED.distribution;
  const { requests, seeds } = (run.quick ? QUICK : FULL)[isCompared ? "compared" : "others"];
  const tails = new Map<string, number[]>();
  const note = (name: string, tail: number) => tails.set(name, [...(tails.get(name) ?? []), tail]);
  for (let seed = 1; seed <= seeds; seed += 1) {
    const arrivals: Arrivals = drawArrivals(seed, requests, replicas, distribution);
    for (const [name, selection] of Object.entries(SELECTIONS)) {
      // There is nothing to choose from one.
      if (replicas === 1 && name !== "random" && name !== OURS) continue;
      run.progress(`${name}, ${replicas} replicas, ${distribution}, seed ${seed}`);
      note(name, tailThroughRouter(pool, arrivals, { replicas, selection, bound: BOUND, seed }));
    }
    note(SINGLE_QUEUE, tailOfSingleQueue(arrivals, replicas));
  }
  return { replicas, distribution, tails };
}

function rowsOf({ replicas, distribution, tails }: Measured): Row[] {
  const where = `${replicas === 1 ? "1 replica" : `${replicas} replicas`}, ${distribution}`;
  const isCompared = replicas === COMPARED.replicas && distribution === COMPARED.distribution;
  const samples = (name: string) => tails.get(name) ?? [];
  const against = (peerName: string, bar: Bar): Row => ({
    what: `99th percentile, ${where}: ${OURS}`,
    unit: UNIT,
    ours: meanAndDeviation(samples(OURS)),
    peer: meanAndDeviation(samples(peerName)),
    peerName,
    ratio: pairedRatio(samples(OURS), samples(peerName)),
    bar: isCompared ? bar : null,
  });
  const others = [...tails.keys()].filter((name) => ![OURS, "random", SINGLE_QUEUE].includes(name));
  return [
    against("random", ratioAtMost(TO_RANDOM)),
    against(SINGLE_QUEUE, ratioAtMost(TO_SINGLE_QUEUE)),
    ...others.map((name) =>
      figure(`99th percentile, ${where}: ${name}`, UNIT, meanAndDeviation(samples(name))),
    ),
  ];
}

function draw(all: readonly Measured[]): string {
  const distributions = [...new Set(all.map(({ distribution }) => distribution))];
  const panels = distributions.map((distribution) => ({
    title: `99th percentile in ${UNIT}, ${distribution} service times, 80 % load`,
    series: [...Object.keys(SELECTIONS), SINGLE_QUEUE].map((name) => ({
      name,
      points: all
        .filter((measured) => measured.distribution === distribution && measured.tails.has(name))
        .map(({ replicas, tails }) => [replicas, meanAndDeviation(tails.get(name) ?? []).median] as const),
    })),
  }));
  return lines("replicas of one worker each", panels);
}

/** The tail of calls through a router, on a virtual clock (R2P2, figures 7 to 9). */
export const r2p2Tail: Experiment = {
  name: "r2p2-tail",
  summary:
    "99th percentile of calls through a router at 80 % load, by how it picks the replica, on a virtual clock",
  async prepare() {
    const pool = await InstancePool.of(MACHINES);
    return async (run) => {
      const all: Measured[] = [];
      for (const distribution of Object.keys(DISTRIBUTIONS) as Distribution[]) {
        for (const replicas of REPLICAS) all.push(measureOne(pool, replicas, distribution, run));
      }
      run.plot(draw(all));
      return all.flatMap(rowsOf);
    };
  },
};
