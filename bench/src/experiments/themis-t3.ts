import { buildCores, buildNetworks } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { interleaveLoops, medians, perOperation, requestsEach, type Sample } from "../harness/loop.ts";
import { openFiles } from "../harness/machine.ts";
import type { Effort } from "../harness/measure.ts";
import { Network, PROCESSES } from "../harness/network.ts";
import { lines } from "../harness/plot.ts";
import { Problem } from "../harness/problem.ts";
import { type Bar, figure, type Row, ratioAtLeast, timed } from "../harness/row.ts";
import { hyperdhtProcess, kadProcess, meshProcess } from "../harness/runtimes.ts";
import { exactly, summarise } from "../harness/statistics.ts";

/** Numbers of nodes; hyperdht and libp2p need minutes to start more than the last that they are measured with. */
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const QUICK_SIZES = [1, 10, 50];
const MOST_HYPERDHT = 200;
/** Where the bars beside others are, and the only size that libp2p is measured with. */
const COMPARED = 50;
/** Where the bar on the cost of cryptography is. */
const COST_AT = 100;
/** Lookups under way at a time in the whole network. */
const WINDOW = 16;
/** Lookups of each node before the first that counts, at least, so that tables are full. */
const WARM_UP = 40;
/**
 * Lookups of each node for every node that there is, so that sessions are up: each asks two or more, and is asked by as
 * many, so all but one pair in 3000 have met. Networks beyond the size never hold a session with everybody.
 */
const TO_MEET_EACH = 2;
const MOST_MET = 200;

const FASTER_THAN_KAD = 10;
const FASTER_THAN_HYPERDHT = 2;
const INSECURE_TO_HYPERDHT = 1;
/** Cryptography may cost a tenth. */
const SECURE_TO_INSECURE = 0.9;

const FULL_EFFORT: Effort = { rounds: 9, roundMs: 1000, warmTurns: 2 };
const QUICK_EFFORT: Effort = { rounds: 3, roundMs: 300, warmTurns: 1 };

interface Files {
  readonly large: string;
  readonly insecure: string;
  readonly mesh: string;
  readonly kad: string;
}

/** The networks of one size that are measured beside each other. */
type Kind = "secure" | "insecure" | "hyperdht" | "kad";

const NAMES: Readonly<Record<Kind, string>> = {
  secure: "ours",
  insecure: "ours without cryptography",
  hyperdht: "hyperdht",
  kad: "rust-libp2p kad",
};

/** What was measured with one number of nodes. */
interface Measured {
  readonly size: number;
  readonly loaded: ReadonlyMap<Kind, readonly Sample[]>;
  readonly alone: ReadonlyMap<Kind, readonly Sample[]>;
  readonly cold: ReadonlyMap<Kind, number>;
}

function kindsOf(size: number): Kind[] {
  const kinds: Kind[] = ["secure", "insecure"];
  if (size <= MOST_HYPERDHT) kinds.push("hyperdht");
  if (size === COMPARED) kinds.push("kad");
  return kinds;
}

function warmUp(size: number): number {
  return size > MOST_MET ? WARM_UP : Math.max(WARM_UP, TO_MEET_EACH * size);
}

/**
 * The sizes that fit into this machine: every node may hold a session with every other one, and each of them is a file for
 * both processes.
 */
function sizesWithin(files: number): number[] {
  const fitting = SIZES.filter((size) => size <= 1 || (size * (size - 1)) / PROCESSES + size <= files);
  if (fitting.includes(COST_AT)) return fitting;
  const needed = COST_AT ** 2 / PROCESSES + COST_AT;
  throw new Problem(`this needs ${needed} open files, and the limit is ${files}: raise it with ulimit -n`);
}

function startOf(kind: Kind, files: Files) {
  const starts = {
    secure: () => meshProcess(files.mesh, files.large),
    insecure: () => meshProcess(files.mesh, files.insecure),
    hyperdht: () => hyperdhtProcess(),
    kad: () => kadProcess(files.kad),
  };
  return starts[kind];
}

async function measureSize(size: number, files: Files, run: Run): Promise<Measured> {
  const kinds = kindsOf(size);
  const networks = new Map<Kind, Network>();
  const cold = new Map<Kind, number>();
  try {
    for (const kind of kinds) {
      run.progress(`starting ${size} nodes of ${NAMES[kind]}`);
      const network = await Network.start(size, startOf(kind, files));
      networks.set(kind, network);
      // The first lookups of every node, with the handshakes that they take.
      const each = Math.max(1, WINDOW / PROCESSES);
      cold.set(kind, (await network.run(`lookup/${each}`, 2 * size)).ns / (2 * size));
      await network.run(`lookup/${each}`, warmUp(size) * size);
    }
    const effort = run.quick ? QUICK_EFFORT : FULL_EFFORT;
    const measure = async (window: number) => {
      const loops = [...networks].map(([kind, network]) =>
        network.lookups(`${NAMES[kind]}, ${size} nodes, ${window} at a time`, window),
      );
      const samples = await interleaveLoops(loops, effort, run.progress);
      return new Map(kinds.map((kind, index) => [kind, samples[index] ?? []]));
    };
    return { size, cold, loaded: await measure(WINDOW), alone: await measure(PROCESSES) };
  } finally {
    for (const network of networks.values()) await network[Symbol.asyncDispose]();
  }
}

function rowsOf({ size, loaded, alone, cold }: Measured): Row[] {
  const nodes = size === 1 ? "1 node" : `${size} nodes`;
  const samples = (of: ReadonlyMap<Kind, readonly Sample[]>, kind: Kind) => of.get(kind) ?? [];
  const rate = (kind: Kind) => perOperation(samples(loaded, kind));
  const against = (ours: Kind, peer: Kind, bar: Bar | null) => {
    const what = ours === "secure" ? "" : ", without cryptography";
    const other = { name: NAMES[peer], samples: rate(peer) };
    return timed(`lookups, ${nodes}${what}`, "1/s", rate(ours), other, bar);
  };
  const rows = [
    against("secure", "insecure", size === COST_AT ? ratioAtLeast(SECURE_TO_INSECURE) : null),
    figure(
      `members asked for one lookup, ${nodes}`,
      "members",
      summarise(requestsEach(samples(loaded, "secure"))),
    ),
  ];
  for (const peer of ["hyperdht", "kad"] as const) {
    if (!loaded.has(peer)) continue;
    const least = peer === "kad" ? FASTER_THAN_KAD : FASTER_THAN_HYPERDHT;
    const compared = size === COMPARED;
    rows.push(against("secure", peer, compared ? ratioAtLeast(least) : null));
    if (peer === "hyperdht")
      rows.push(against("insecure", peer, compared ? ratioAtLeast(INSECURE_TO_HYPERDHT) : null));
    const requests = summarise(requestsEach(samples(loaded, peer)));
    rows.push(figure(`requests for one lookup of ${NAMES[peer]}, ${nodes}`, "requests", requests));
    rows.push(
      timed(`first lookups after the start, ${nodes}`, "1/s", [cold.get("secure") ?? Number.NaN], {
        name: NAMES[peer],
        samples: [cold.get(peer) ?? Number.NaN],
      }),
      timed(
        `one lookup at a time in each process, median, ${nodes}`,
        "us",
        medians(samples(alone, "secure")),
        {
          name: NAMES[peer],
          samples: medians(samples(alone, peer)),
        },
      ),
    );
  }
  return rows;
}

function draw(all: readonly Measured[]): string {
  const series = (of: (measured: Measured, kind: Kind) => number | undefined) =>
    (Object.keys(NAMES) as Kind[])
      .map((kind) => ({
        name: NAMES[kind],
        points: all.flatMap((measured): (readonly [number, number])[] => {
          const value = of(measured, kind);
          return value === undefined ? [] : [[measured.size, value]];
        }),
      }))
      .filter(({ points }) => points.length > 0);
  const median = (samples: readonly number[] | undefined) =>
    samples === undefined || samples.length === 0 ? undefined : summarise(samples).median;
  const latency = (measured: Measured, kind: Kind) =>
    median(measured.alone.get(kind)?.map(({ p50_us }) => p50_us / 1000));
  const rate = (measured: Measured, kind: Kind) =>
    median(measured.loaded.get(kind)?.map(({ ns, count }) => (1e9 * count) / ns));
  return lines("nodes, in two processes on one machine", [
    { title: `median of a lookup, ms, ${PROCESSES} at a time`, series: series(latency) },
    { title: `lookups a second, ${WINDOW} at a time`, series: series(rate) },
  ]);
}

/** Lookups against the number of nodes, with and without cryptography (Themis, figure 4). */
export const themisT3: Experiment = {
  name: "themis-t3",
  summary: "lookups by number of nodes, with and without cryptography, beside hyperdht and rust-libp2p",
  onAllCores: true,
  async prepare() {
    const files = { ...(await buildCores()), ...(await buildNetworks()) };
    return async (run) => {
      const all: Measured[] = [];
      const sizes = run.quick ? QUICK_SIZES : sizesWithin(openFiles());
      for (const size of sizes) all.push(await measureSize(size, files, run));
      run.plot(draw(all));
      const largest = figure(
        "nodes of the largest network: open files",
        "nodes",
        exactly(Math.max(...sizes)),
      );
      return [largest, ...all.flatMap(rowsOf)];
    };
  },
};
