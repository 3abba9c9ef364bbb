import { buildYcsb } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { loopOf, perOperation, type Took } from "../harness/loop.ts";
import { lines } from "../harness/plot.ts";
import type { TaskProcess } from "../harness/process.ts";
import { oursAtMost, type Row, ratioAtLeast, ratioAtMost, timed } from "../harness/row.ts";
import { hypercoreProcess, ycsbProcess } from "../harness/runtimes.ts";

const VALUE_BYTES = 16;
const FULL = { records: 100_000, perSignature: [1, 10, 100, 1_000, 10_000, 100_000], rounds: 5 };
const QUICK = { records: 10_000, perSignature: [1, 100, 10_000], rounds: 2 };

/** A cached proof may cost so many times as much as hashing the record's header once in WebAssembly. */
const HASHES = 12;
const FASTER_THAN_HYPERCORE = 2;
/** Microseconds in which a file that proves a record is verified. */
const VERIFY_US = 100;
/** Records of a capsule that is exported, each signed when it was written, and seconds in which that is done. */
const EXPORTED = 14_000;
const EXPORT_S = 1;

/** What one turn came to. */
interface Turn {
  readonly write: Took;
  readonly hash: Took;
  /** Reads from the last record to the first, each proven by one that was verified before. */
  readonly first: Took;
  /** The same at once again, when nothing is to be proven. */
  readonly again: Took;
  /** Reads in any order, each proven. */
  readonly anyOrder: Took;
  /** Files that prove a record to whoever has nothing else. */
  readonly prove: Took;
  readonly verify: Took;
}

/** Turns of one number of records for each signature, and reads of hypercore in the same rounds. */
interface Measured {
  readonly perSignature: number;
  readonly turns: Turn[];
  readonly gets: number[];
  readonly proofs: number[];
}

async function turns(ours: TaskProcess, hypercore: TaskProcess, run: Run): Promise<Measured[]> {
  const { records, perSignature, rounds } = run.quick ? QUICK : FULL;
  const all: Measured[] = perSignature.map((each) => ({
    perSignature: each,
    turns: [],
    gets: [],
    proofs: [],
  }));
  const get = loopOf("get", hypercore, `get/${VALUE_BYTES}/${records}`);
  const proof = loopOf("proof", hypercore, `proof/${VALUE_BYTES}/${records}`);
  for (let round = 0; round < rounds; round += 1) {
    for (const one of all) {
      run.progress(`round ${round + 1} of ${rounds}: ${one.perSignature} records for each signature`);
      const task = `proofs/${VALUE_BYTES}/${one.perSignature}`;
      one.turns.push(JSON.parse(await ours.request(task, records)) as Turn);
      one.gets.push(...perOperation([{ ...(await get.run(records)), count: records }]));
      const proven = Math.ceil(records / 10);
      one.proofs.push(...perOperation([{ ...(await proof.run(proven)), count: proven }]));
    }
  }
  return all;
}

/** Exports of a whole capsule. */
async function exports(ours: TaskProcess, { quick, progress }: Run): Promise<Row[]> {
  const records = quick ? EXPORTED / 10 : EXPORTED;
  const turns: Took[] = [];
  for (let round = 0; round < (quick ? QUICK : FULL).rounds; round += 1) {
    progress(`export ${round + 1}`);
    turns.push(JSON.parse(await ours.request("export/", records)) as Took);
  }
  const what = `export of ${records.toLocaleString("en-US")} records, wasmtime`;
  const elapsed = turns.map(({ ns }) => ns);
  const cpu = turns.map(({ cpu_ns }) => cpu_ns);
  return [timed(what, "s", elapsed, null, oursAtMost(EXPORT_S)), timed(`${what}: processor time`, "s", cpu)];
}

function rowsOf({ perSignature, turns, gets, proofs }: Measured, records: number): Row[] {
  const where = `${perSignature.toLocaleString("en-US")} records for each signature`;
  const elapsed = (key: keyof Turn) => turns.map((turn) => turn[key].ns);
  const cpu = (key: keyof Turn) => turns.map((turn) => turn[key].cpu_ns);
  const isWhole = perSignature === records;
  const get = { name: "hypercore get, which verifies nothing", samples: gets };
  const hash = { name: "hashing the header once", samples: cpu("hash") };
  const atLeast = isWhole ? ratioAtLeast(FASTER_THAN_HYPERCORE) : null;
  return [
    timed(`${where}: write`, "1/s", elapsed("write")),
    timed(`${where}: write, processor time`, "us", cpu("write")),
    timed(`${where}: read and proven, any order`, "1/s", elapsed("anyOrder"), get, atLeast),
    timed(`${where}: read and proven, any order, processor time`, "us", cpu("anyOrder")),
    timed(`${where}: read, proven before`, "1/s", elapsed("again")),
    timed(`${where}: read, proven before, processor time`, "us", cpu("again")),
    timed(`${where}: cached proof`, "us", proofTimes(turns), hash, isWhole ? ratioAtMost(HASHES) : null),
    timed(`${where}: file that proves a record, made`, "us", elapsed("prove"), {
      name: "hypercore proof, not verified",
      samples: proofs,
    }),
    timed(
      `${where}: file that proves a record, verified`,
      "us",
      elapsed("verify"),
      null,
      isWhole ? oursAtMost(VERIFY_US) : null,
    ),
  ];
}

/** What proofs cost, on both sides: what a read costs with one beyond what it costs without. */
function proofTimes(turns: readonly Turn[]): number[] {
  return turns.map(({ first, again }) => first.cpu_ns - again.cpu_ns);
}

function draw(all: readonly Measured[]): string {
  const series = (name: string, of: (turns: readonly Turn[]) => number[]) => ({
    name,
    points: all.map(({ perSignature, turns }) => {
      const sorted = of(turns).toSorted((a, b) => a - b);
      return [perSignature, (sorted[Math.floor(sorted.length / 2)] ?? 0) / 1000] as const;
    }),
  });
  const times = (key: keyof Turn) => (turns: readonly Turn[]) => turns.map((turn) => turn[key].cpu_ns);
  return lines("records for each signature", [
    { title: "microseconds a record", series: [series("write", times("write"))] },
    {
      title: "microseconds a proof",
      series: [series("cached proof", proofTimes), series("hash", times("hash"))],
    },
  ]);
}

/** Writes, reads and proofs against the number of records for each signature (DCS, section 6.3). */
export const dcsD1: Experiment = {
  name: "dcs-d1",
  summary: "writes, reads and proofs of a capsule beside a hash, and reads beside hypercore",
  async prepare() {
    const ycsb = await buildYcsb();
    return async (run) => {
      await using ours = ycsbProcess(ycsb);
      await using hypercore = hypercoreProcess();
      const all = await turns(ours, hypercore, run);
      run.plot(draw(all));
      const { records } = run.quick ? QUICK : FULL;
      return [...all.flatMap((one) => rowsOf(one, records)), ...(await exports(ours, run))];
    };
  },
};
