import { buildYcsb, type Ycsb } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import {
  cpuPerOperation,
  type Loop,
  loopOf,
  medians,
  perOperation,
  type Sample,
  takeTurns,
} from "../harness/loop.ts";
import { bars } from "../harness/plot.ts";
import type { TaskProcess } from "../harness/process.ts";
import { findRocksDb } from "../harness/rocksdb.ts";
import { oursAtMost, type Row, ratioAtLeast, timed } from "../harness/row.ts";
import { ycsbProcess } from "../harness/runtimes.ts";

/**
 * YCSB's workloads, which part of RocksDB's rate we are to reach with short values, and how many microseconds of the processor
 * an operation on one may take, of client and server together.
 */
const WORKLOADS = [
  { letter: "a", name: "A, half of it writes", least: 0.22, mostCpu: 9 },
  { letter: "b", name: "B, one write in twenty", least: 0.18, mostCpu: 7 },
  { letter: "c", name: "C, reads only", least: 0.33, mostCpu: 4 },
  { letter: "d", name: "D, the latest is read", least: 0.2, mostCpu: 7 },
] as const;
const SHORT = 16;
const VALUES = [SHORT, 1024] as const;
/** With long values half of the rate is enough: what is sealed and hashed is mostly the value. */
const LONG_SHARE = 0.5;
/** Sub-records are to be no slower than records. */
const SUBRECORDS_LEAST = 1;

/** With a write to the disk before each acknowledgement, so many threads share one. */
const SYNCED_THREADS = 16;
const SYNCED_LEAST = 0.3;

/** Operations of a turn, and turns: as many as it takes to tell some hundredths apart on a machine that others use too. Of what waits
 * for the disk there are fewer operations, and more turns, as a turn's ratio is a tenth up or down. */
const FULL = { count: 1_000_000, synced: 200_000, rounds: 5, syncedRounds: 7 };
const QUICK = { count: 10_000, synced: 8_000, rounds: 2, syncedRounds: 2 };
/** The paper's runs are this long. */
const PAPER_COUNT = 10_000;
const PAPER_ROUNDS = 7;
/** What the paper reports of its records, operations a second. */
const PAPER = { a: 57_994, b: 90_042, c: 108_508, d: 59_449 } as const;

const UNLOGGED = "RocksDB without its log";

/** One kind of store under one workload. */
function loop(process: TaskProcess, store: string, plan: string): Loop {
  return loopOf(`${store}/${plan}`, process, `ycsb/${store}/${plan}`);
}

async function workloads(process: TaskProcess, count: number, rounds: number, run: Run): Promise<Row[]> {
  const rows: Row[] = [];
  for (const workload of WORKLOADS) {
    for (const bytes of VALUES) {
      const plan = (durability: string, way: string) => `${workload.letter}/${bytes}/${durability}/1/${way}`;
      const loops = [
        loop(process, "capsule", plan("none", "call")),
        loop(process, "rocksdb", plan("none", "call")),
        loop(process, "rocksdb", plan("logged", "call")),
        loop(process, "rocksdb-singly", plan("none", "call")),
        loop(process, "subrecords", plan("none", "call")),
        loop(process, "capsule", plan("none", "http")),
      ];
      const samples = await takeTurns(loops, count, rounds, run.progress);
      const what = `${workload.name}, ${bytes} B, ${count.toLocaleString("en-US")} operations`;
      rows.push(...rowsOf(what, samples, barsOf(workload, bytes)));
    }
  }
  return rows;
}

function barsOf({ least, mostCpu }: (typeof WORKLOADS)[number], bytes: number) {
  const isShort = bytes === SHORT;
  return {
    rate: ratioAtLeast(isShort ? least : least * LONG_SHARE),
    cpu: isShort ? oursAtMost(mostCpu) : null,
  };
}

function rowsOf(what: string, samples: Sample[][], { rate, cpu }: ReturnType<typeof barsOf>): Row[] {
  const [ours = [], unlogged = [], logged = [], singly = [], parts = [], http = []] = samples;
  const row = (kind: string, one: Sample[], name: string, other: Sample[], bar: Row["bar"] = null) =>
    timed(`${what}${kind}`, "1/s", perOperation(one), { name, samples: perOperation(other) }, bar);
  const cpuRow = (kind: string, one: Sample[], name: string, other: Sample[], bar: Row["bar"] = null) => {
    const peer = { name, samples: cpuPerOperation(other) };
    return timed(`${what}${kind}: processor time`, "us", cpuPerOperation(one), peer, bar);
  };
  return [
    row("", ours, UNLOGGED, unlogged, rate),
    cpuRow("", ours, UNLOGGED, unlogged, cpu),
    row("", ours, "RocksDB with its log, not synced", logged),
    row("", ours, `${UNLOGGED}, a Get for each read`, singly),
    row(": sub-records", parts, "records", ours, ratioAtLeast(SUBRECORDS_LEAST)),
    cpuRow(": sub-records", parts, "records", ours),
    row(": over HTTP", http, "in one process", ours),
    cpuRow(": over HTTP", http, "in one process", ours),
  ];
}

/** Records and sub-records beside RocksDB, all of which wait for the disk. */
async function synced(process: TaskProcess, count: number, rounds: number, run: Run): Promise<Row[]> {
  const rows: Row[] = [];
  for (const bytes of VALUES) {
    const plan = `a/${bytes}/synced/${SYNCED_THREADS}/call`;
    const loops = ["rocksdb", "capsule", "subrecords"].map((store) => loop(process, store, plan));
    const [theirs = [], records = [], parts = []] = await takeTurns(loops, count, rounds, run.progress);
    const what = `A, ${bytes} B, on the disk before it is acknowledged, ${SYNCED_THREADS} threads`;
    for (const [kind, ours, bar] of [
      [what, records, ratioAtLeast(SYNCED_LEAST)],
      [`${what}: sub-records`, parts, null],
    ] as const) {
      const peer = (of: (samples: Sample[]) => number[]) => ({
        name: "RocksDB with sync on",
        samples: of(theirs),
      });
      rows.push(
        timed(kind, "1/s", perOperation(ours), peer(perOperation), bar),
        timed(`${kind}: processor time`, "us", cpuPerOperation(ours), peer(cpuPerOperation)),
        timed(`${kind}: a batch, median`, "ms", medians(ours), peer(medians)),
      );
    }
  }
  return rows;
}

function draw(rows: readonly Row[]): string {
  const rates = rows.filter(({ unit, peerName }) => unit === "1/s" && peerName === UNLOGGED);
  return bars("YCSB, operations a second", [
    ...rates.flatMap(({ what, ours, peer }) => [
      { name: `${what}: ours`, value: ours.median },
      { name: `${what}: RocksDB`, value: peer?.median ?? 0 },
    ]),
    ...WORKLOADS.map(({ letter, name }) => ({
      name: `${name}: the paper's, other hardware`,
      value: PAPER[letter],
    })),
  ]);
}

async function measure(ycsb: Ycsb, rocksdb: string, run: Run): Promise<Row[]> {
  await using process = ycsbProcess(ycsb, rocksdb);
  const { count, synced: syncedCount, rounds, syncedRounds } = run.quick ? QUICK : FULL;
  // First: what others leave to the disk, it is busy with for some time, and not all that wait for it then suffer alike.
  const waiting = await synced(process, syncedCount, syncedRounds, run);
  const short = run.quick ? [] : await workloads(process, PAPER_COUNT, PAPER_ROUNDS, run);
  const long = await workloads(process, count, rounds, run);
  run.plot(draw(long));
  return [...short, ...long, ...waiting];
}

/** A key-value store on a capsule beside RocksDB, YCSB A to D (DCS, section 6.4). */
export const dcsD2: Experiment = {
  name: "dcs-d2",
  summary: "YCSB A to D on a capsule beside RocksDB",
  onAllCores: true,
  async prepare() {
    const rocksdb = findRocksDb();
    const ycsb = await buildYcsb();
    return (run) => measure(ycsb, rocksdb, run);
  },
};
