import { buildYcsb } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { loopOf, perOperation } from "../harness/loop.ts";
import { lines } from "../harness/plot.ts";
import type { TaskProcess } from "../harness/process.ts";
import { figure, type Row, ratioAtLeast, ratioAtMost, timed } from "../harness/row.ts";
import { hypercoreProcess, ycsbProcess } from "../harness/runtimes.ts";
import { exactly } from "../harness/statistics.ts";

const VALUE_BYTES = 16;
const FULL = { records: 100_000, perSignature: [1, 10, 100, 1_000, 10_000, 100_000], rounds: 5 };
const QUICK = { records: 10_000, perSignature: [1, 100, 10_000], rounds: 2 };

/** A proof may cost so many times as much as hashing the record's header once; one from a signature so many for each halving. */
const HASHES = 10;
const FASTER_THAN_HYPERCORE = 3;

/** Mean and most headers of proofs. */
type Lengths = readonly [mean: number, most: number];

/** What one turn came to: nanoseconds for one record. */
interface Turn {
  readonly write: number;
  readonly hash: number;
  readonly read: number;
  readonly verifiedRead: number;
  /** Proofs in the order of writing, in a session. */
  readonly cached: number;
  /** Proofs in any order, in a session. */
  readonly scattered: number;
  /** Proofs that begin at a signature. */
  readonly uncached: number;
  readonly lengths: { readonly cached: Lengths; readonly scattered: Lengths; readonly uncached: Lengths };
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

function rowsOf({ perSignature, turns, gets, proofs }: Measured, records: number): Row[] {
  const where = `${perSignature.toLocaleString("en-US")} records for each signature`;
  const of = (key: Exclude<keyof Turn, "lengths">) => turns.map((turn) => turn[key]);
  const hash = { name: "hashing the header once", samples: of("hash") };
  const isWhole = perSignature === records;
  const most = Math.round(HASHES * Math.log2(records));
  const last = turns.at(-1);
  const lengths = (["cached", "scattered", "uncached"] as const).flatMap((kind) => {
    const [mean = 0, longest = 0] = last?.lengths[kind] ?? [];
    return [
      figure(`${where}: headers of a proof, ${kind}, mean`, "headers", exactly(mean)),
      figure(`${where}: headers of a proof, ${kind}, most`, "headers", exactly(longest)),
    ];
  });
  return [
    timed(`${where}: write`, "1/s", of("write")),
    timed(`${where}: read, not proven`, "1/s", of("read")),
    timed(
      `${where}: read and proven, any order`,
      "1/s",
      of("verifiedRead"),
      { name: "hypercore get, which verifies nothing", samples: gets },
      isWhole ? ratioAtLeast(FASTER_THAN_HYPERCORE) : null,
    ),
    timed(`${where}: cached proof`, "us", of("cached"), hash, isWhole ? ratioAtMost(HASHES) : null),
    timed(`${where}: cached proof, any order`, "us", of("scattered"), hash),
    timed(`${where}: uncached proof`, "us", of("uncached"), hash, isWhole ? ratioAtMost(most) : null),
    timed(`${where}: uncached proof`, "us", of("uncached"), {
      name: "hypercore proof, not verified",
      samples: proofs,
    }),
    ...lengths,
  ];
}

function draw(all: readonly Measured[]): string {
  const series = (name: string, key: "write" | "cached" | "uncached" | "hash") => ({
    name,
    points: all.map(({ perSignature, turns }) => {
      const sorted = turns.map((turn) => turn[key] / 1000).sort((a, b) => a - b);
      return [perSignature, sorted[Math.floor(sorted.length / 2)] ?? 0] as const;
    }),
  });
  return lines("records for each signature", [
    { title: "microseconds a record", series: [series("write", "write")] },
    {
      title: "microseconds a proof",
      series: [series("cached", "cached"), series("uncached", "uncached"), series("hash", "hash")],
    },
  ]);
}

/** Writes, reads and proofs against the number of records for each signature (DCS, section 6.3). */
export const dcsD1: Experiment = {
  name: "dcs-d1",
  summary: "writes, reads and proofs of a capsule beside a hash, and reads beside hypercore",
  async prepare() {
    const binary = await buildYcsb();
    return async (run) => {
      await using ours = ycsbProcess(binary);
      await using hypercore = hypercoreProcess();
      const all = await turns(ours, hypercore, run);
      run.plot(draw(all));
      const { records } = run.quick ? QUICK : FULL;
      return all.flatMap((one) => rowsOf(one, records));
    };
  },
};
