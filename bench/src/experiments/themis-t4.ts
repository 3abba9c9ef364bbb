import { buildCommand } from "../harness/build.ts";
import { Command, type Told } from "../harness/command.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { bars } from "../harness/plot.ts";
import { Problem } from "../harness/problem.ts";
import { Bootstraps, joinAndLeave, NETWORK } from "../harness/ring.ts";
import { oursBelow, type Row, timed } from "../harness/row.ts";

/** Nodes that join, and those that are there before. */
const NODES = 500;
const BOOTSTRAPS = 10;
const SECONDS_IN_PARALLEL = 8;
/** Rings that are built anew, and processes that are started. */
const FULL_TURNS = { rings: 5, processes: 30 };
const QUICK_TURNS = { rings: 1, processes: 5 };
/** What the paper reports, in seconds; each node of its is a process. */
const PAPER = { sequential: 362.466, parallel: 15.403 };

/** Nanoseconds of what `selfsame nodes` did once. */
interface Ring {
  readonly sequential: number;
  readonly parallel: number;
  /** Of one node that joins after another. */
  readonly each: number;
  /** From the last join to everybody knowing its successor, after joining in parallel. */
  readonly settled: number;
}

function number(told: Told | undefined, name: string): number {
  const value = told?.[name];
  if (typeof value !== "number") throw new Problem(`selfsame nodes tells no ${name}`);
  return value;
}

/** Lets all nodes join two rings, one after the other and many at once. */
async function build(binary: string): Promise<Ring> {
  await using nodes = new Command(binary, [
    "nodes",
    ...NETWORK,
    ...["--count", `${NODES}`, "--bootstraps", `${BOOTSTRAPS}`],
  ]);
  const times = new Map<unknown, Told>();
  let settled: Told | undefined;
  for await (const told of nodes.told()) {
    if (told.event === "times") times.set(told.what, told);
    if (told.event === "settled") settled = told;
  }
  const sequential = times.get("join in sequence");
  const parallel = times.get("join in parallel");
  return {
    sequential: number(sequential, "total_ms") * 1e6,
    parallel: number(parallel, "total_ms") * 1e6,
    each: number(sequential, "each_ms") * 1e6,
    settled: number(settled, "seconds") * 1e9,
  };
}

/** Lets processes join a ring of bootstraps, one after the other. */
async function startProcesses(binary: string, count: number, run: Run): Promise<number[]> {
  await using ring = await Bootstraps.start(binary, BOOTSTRAPS);
  const took: number[] = [];
  for (let turn = 0; turn < count; turn += 1) {
    run.progress(`process ${turn + 1} of ${count}`);
    took.push((await joinAndLeave(binary, ring.at(turn))).joined);
  }
  return took;
}

async function measure(binary: string, run: Run): Promise<Row[]> {
  const turns = run.quick ? QUICK_TURNS : FULL_TURNS;
  const rings: Ring[] = [];
  for (let turn = 0; turn < turns.rings; turn += 1) {
    run.progress(
      `round ${turn + 1} of ${turns.rings}: ${NODES} nodes join, one after the other and many at once`,
    );
    rings.push(await build(binary));
  }
  const processes = await startProcesses(binary, turns.processes, run);
  const all = `${NODES} nodes join through ${BOOTSTRAPS}`;
  const sequential = rings.map((ring) => ring.sequential);
  const rows = [
    timed(
      `${all}, many at once`,
      "s",
      rings.map((ring) => ring.parallel),
      { name: "one after the other", samples: sequential },
      oursBelow(SECONDS_IN_PARALLEL),
    ),
    timed(
      "until all know their successors after that",
      "s",
      rings.map((ring) => ring.settled),
    ),
    timed(
      "one joins with a new identity, after the others",
      "ms",
      rings.map((ring) => ring.each),
    ),
    timed(`one joins with a new identity, with the start of its process`, "ms", processes),
  ];
  run.plot(draw(rows));
  return rows;
}

function draw([parallel]: readonly Row[]): string {
  return bars(`Seconds until ${NODES} nodes have joined through ${BOOTSTRAPS}`, [
    { name: "many at once", value: parallel?.ours.median ?? 0 },
    { name: "one after the other", value: parallel?.peer?.median ?? 0 },
    { name: "the paper's, at once, other hardware", value: PAPER.parallel },
    { name: "the paper's, one after the other", value: PAPER.sequential },
  ]);
}

/** Many nodes that join through few (Themis, section 9.2). */
export const themisT4: Experiment = {
  name: "themis-t4",
  summary: "500 nodes with new identities join through ten, at once and one after the other",
  onAllCores: true,
  async prepare() {
    const binary = await buildCommand();
    return (run) => measure(binary, run);
  },
};
