import { CapsuleModule, capsuleModule, exportCapsule, peerAt } from "selfsame/capsule";

import { buildYcsb, builtPackage, source } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { loopOf, perOperation, type Took } from "../harness/loop.ts";
import { lines } from "../harness/plot.ts";
import type { TaskProcess } from "../harness/process.ts";
import { oursAtMost, type Row, ratioAtLeast, ratioAtMost, timed } from "../harness/row.ts";
import { denoReplicaProcess, hypercoreProcess, ycsbProcess } from "../harness/runtimes.ts";
import { Workerd, WorkerFiles } from "../harness/workerd.ts";

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
const EXPORT_S = { wasmtime: 1, Deno: 2, workerd: 3 };

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

/** Fills a new capsule of a replica with small records and returns the URL of its export file. */
type Fill = (records: number) => Promise<string>;

/** Exports of a whole capsule through the host, in its process and over HTTP. */
async function hostExports(ours: TaskProcess, { quick, progress }: Run): Promise<Row[]> {
  const records = quick ? EXPORTED / 10 : EXPORTED;
  const rows: Row[] = [];
  for (const way of ["call", "http"]) {
    const turns: Took[] = [];
    for (let round = 0; round < (quick ? QUICK : FULL).rounds; round += 1) {
      progress(`export ${round + 1}, wasmtime`);
      turns.push(JSON.parse(await ours.request(`export/${way}`, records)) as Took);
    }
    const what = `${exportOf(records, "wasmtime")}${way === "http" ? " over HTTP" : ""}`;
    const elapsed = turns.map(({ ns }) => ns);
    const cpu = turns.map(({ cpu_ns }) => cpu_ns);
    rows.push(timed(what, "s", elapsed, null, oursAtMost(EXPORT_S.wasmtime)));
    rows.push(timed(`${what}: processor time`, "s", cpu));
  }
  return rows;
}

/** Exports of a whole capsule of the npm package over HTTP: by a client that reads its records, and as the file that its replica makes. */
async function packageExports(name: "Deno" | "workerd", fill: Fill, run: Run): Promise<Row[]> {
  const records = run.quick ? EXPORTED / 10 : EXPORTED;
  const module = await CapsuleModule.instantiate(await capsuleModule());
  const verified: number[] = [];
  const fetched: number[] = [];
  for (let round = 0; round < (run.quick ? QUICK : FULL).rounds; round += 1) {
    run.progress(`export ${round + 1}, ${name}`);
    const file = new URL(await fill(records));
    const { ask } = peerAt(new URL("/", file).href);
    verified.push(await elapsedNs(exportCapsule(module, file.pathname.slice(1), ask)));
    fetched.push(await elapsedNs(get(file)));
  }
  const bar = oursAtMost(EXPORT_S[name]);
  const what = exportOf(records, name);
  return [
    timed(`${what} over HTTP`, "s", verified, null, bar),
    timed(`${what}, the file by GET`, "s", fetched, null, bar),
  ];
}

/** The pieces of a file as an HTTP server sends them. */
async function* get(url: URL): AsyncGenerator<Uint8Array> {
  const { ok, status, body } = await fetch(url);
  if (!ok || body === null) throw new Error(`${url} answers with ${status}`);
  yield* body;
}

/** Nanoseconds until the last piece of a file has come. */
async function elapsedNs(file: AsyncIterable<Uint8Array>): Promise<number> {
  const begin = process.hrtime.bigint();
  let bytes = 0;
  for await (const piece of file) bytes += piece.length;
  if (bytes === 0) throw new Error("nothing was exported");
  return Number(process.hrtime.bigint() - begin);
}

function exportOf(records: number, runtime: string): string {
  return `export of ${records.toLocaleString("en-US")} records, ${runtime}`;
}

/** Exports in every runtime that is measured. */
async function exports(ours: TaskProcess, worker: WorkerFiles, run: Run): Promise<Row[]> {
  await using deno = denoReplicaProcess();
  await using workerd = await Workerd.start(worker);
  const fillObject: Fill = async (records) => `${workerd.url}${await workerd.ask(`?count=${records}`)}`;
  return [
    ...(await hostExports(ours, run)),
    ...(await packageExports("Deno", (records) => deno.request("fill", records), run)),
    ...(await packageExports("workerd", fillObject, run)),
  ];
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
    await builtPackage();
    const ycsb = await buildYcsb();
    return async (run) => {
      await using worker = await WorkerFiles.write(source("runners/export-worker.ts"), {}, { objects: true });
      await using ours = ycsbProcess(ycsb);
      await using hypercore = hypercoreProcess();
      const all = await turns(ours, hypercore, run);
      run.plot(draw(all));
      const { records } = run.quick ? QUICK : FULL;
      return [...all.flatMap((one) => rowsOf(one, records)), ...(await exports(ours, worker, run))];
    };
  },
};
