import { builtPackage } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { interleave, type Work } from "../harness/measure.ts";
import { bars } from "../harness/plot.ts";
import type { TaskProcess } from "../harness/process.ts";
import { oursAtLeast, type Row, ratioAtMost, timed } from "../harness/row.ts";
import { capsuleProcess, hypercoreProcess } from "../harness/runtimes.ts";

const VALUE_BYTES = 16;
/** Blocks of the hypercore that is read, as many as the records of the capsule that is. */
const BLOCKS = 10_000;

/** What is measured: the task of the runner, hypercore's closest and how many a second `node:sqlite` has to reach. */
const OPERATIONS = [
  { task: "appends", what: "append in hundreds", peer: `appends/${VALUE_BYTES}`, bar: 20_000 },
  { task: "append", what: "append one by one", peer: `append/${VALUE_BYTES}`, bar: 2_500 },
  { task: "read", what: "read one by one", peer: `read/${VALUE_BYTES}/${BLOCKS}`, bar: 10_000 },
  { task: "get", what: "map.get", peer: undefined, bar: 5_000 },
  { task: "set", what: "map.set", peer: undefined, bar: 2_000 },
] as const;

/** Records that `memory()` is filled with, and how much more one of many may cost than one of few. */
const FULL = { few: 10_000, many: 100_000, rounds: 5 };
const QUICK = { few: 2_000, many: 20_000, rounds: 2 };
const LINEAR = 1.5;

/** Places of a capsule, the barred one first. */
const PLACES = [
  { path: "sqlite", label: "node:sqlite" },
  { path: "memory", label: "memory" },
  { path: "sqlite/http", label: "node:sqlite, over HTTP" },
] as const;

async function measureOperation(operation: (typeof OPERATIONS)[number], run: Run): Promise<Row[]> {
  const { task, what, peer, bar } = operation;
  await using stack = new AsyncDisposableStack();
  const workOf = (process: TaskProcess, name: string): Watched => watched(stack.use(process).work(name));
  const works = PLACES.map(({ path }) => workOf(capsuleProcess(), `${task}/${path}`));
  if (peer !== undefined) works.push(workOf(hypercoreProcess(), peer));
  const samples = await interleave(works, run.effort, run.progress);
  const peerOf = (theirs: readonly number[] | undefined) => theirs && { name: "hypercore", samples: theirs };
  const elapsed = works.map((work) => work.elapsed.slice(-run.effort.rounds));
  const hypercore = peerOf(samples[PLACES.length]);
  return PLACES.flatMap(({ label }, index) => {
    const ours = samples[index] ?? [];
    const waited = peerOf(elapsed[PLACES.length]);
    return [
      timed(`${what}, ${label}`, "1/s", ours, hypercore, index === 0 ? oursAtLeast(bar) : null),
      timed(`${what}, ${label}, processor time`, "us", ours, hypercore),
      timed(`${what}, ${label}, elapsed`, "us", elapsed[index] ?? [], waited),
    ];
  });
}

/** Work that also notes the elapsed nanoseconds of a repetition, of each turn. */
interface Watched extends Work {
  readonly elapsed: number[];
}

function watched(work: Work): Watched {
  const elapsed: number[] = [];
  const run = async (count: number): Promise<number> => {
    const before = performance.now();
    const took = await work.run(count);
    elapsed.push(((performance.now() - before) * 1e6) / count);
    return took;
  };
  return { name: work.name, run, elapsed };
}

function draw(rows: readonly Row[]): string {
  const rates = rows.filter(({ unit }) => unit === "1/s");
  const values = rates.map(({ what, ours }) => ({ name: what, value: ours.median }));
  return bars("Capsules in Node, operations in a second of processor time", values);
}

/** Fills new capsules in memory with few and with many records: the time for one is to stay the same. */
async function measureGrowth(run: Run): Promise<Row> {
  const { few, many, rounds } = run.quick ? QUICK : FULL;
  await using process = capsuleProcess();
  const fill = process.work("fill/memory");
  await fill.run(few);
  const ofFew: number[] = [];
  const ofMany: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    run.progress(`round ${round + 1} of ${rounds}: ${many} records in memory`);
    ofFew.push((await fill.run(few)) / few);
    ofMany.push((await fill.run(many)) / many);
  }
  const records = (count: number) => `${count.toLocaleString("en-US")} records`;
  const peer = { name: `one of ${records(few)}`, samples: ofFew };
  return timed(
    `append in hundreds, memory: one of ${records(many)}`,
    "us",
    ofMany,
    peer,
    ratioAtMost(LINEAR),
  );
}

/** Capsules and maps of the npm package in Node, as applications use them. */
export const dcsNode: Experiment = {
  name: "dcs-node",
  summary: "appends, reads and maps of the npm package in Node beside hypercore",
  async prepare() {
    await builtPackage();
    return async (run) => {
      const rows: Row[] = [];
      for (const operation of OPERATIONS) rows.push(...(await measureOperation(operation, run)));
      rows.push(await measureGrowth(run));
      run.plot(draw(rows));
      return rows;
    };
  },
};
