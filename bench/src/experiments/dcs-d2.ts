import { buildYcsb } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { type Loop, loopOf, medians, perOperation, type Sample, takeTurns } from "../harness/loop.ts";
import { bars } from "../harness/plot.ts";
import type { TaskProcess } from "../harness/process.ts";
import { findRocksDb } from "../harness/rocksdb.ts";
import { type Row, ratioAtLeast, timed } from "../harness/row.ts";
import { ycsbProcess } from "../harness/runtimes.ts";

/** YCSB's workloads, and which part of RocksDB's rate we are to reach. */
const WORKLOADS = [
  { letter: "a", name: "A, half of it writes", least: 0.5 },
  { letter: "b", name: "B, one write in twenty", least: 0.7 },
  { letter: "c", name: "C, reads only", least: 0.5 },
  { letter: "d", name: "D, the latest is read", least: 0.7 },
] as const;
const VALUES = [16, 1024] as const;
/** Sub-records are to be no slower than records. */
const SUBRECORDS_LEAST = 1;

/** With a write to the disk before each acknowledgement, so many threads share one. */
const SYNCED_THREADS = 16;
const SYNCED_LEAST = 1;

/** Operations of a turn, and turns: as many as it takes to tell some hundredths apart on a machine that others use too. Of what waits
 * for the disk there are more, as a turn's ratio is a tenth up or down. */
const FULL = { count: 1_000_000, synced: 1_000_000, rounds: 5, syncedRounds: 11 };
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
  for (const { letter, name, least } of WORKLOADS) {
    for (const bytes of VALUES) {
      const plan = (durability: string) => `${letter}/${bytes}/${durability}/1`;
      const loops = [
        loop(process, "capsule", plan("none")),
        loop(process, "rocksdb", plan("none")),
        loop(process, "rocksdb", plan("logged")),
        loop(process, "rocksdb-singly", plan("none")),
        loop(process, "subrecords", plan("none")),
      ];
      const samples = await takeTurns(loops, count, rounds, run.progress);
      const [ours = [], unlogged = [], logged = [], singly = [], parts = []] = samples.map(perOperation);
      const what = `${name}, ${bytes} B, ${count.toLocaleString("en-US")} operations`;
      rows.push(
        timed(what, "1/s", ours, { name: UNLOGGED, samples: unlogged }, ratioAtLeast(least)),
        timed(what, "1/s", ours, { name: "RocksDB with its log, not synced", samples: logged }),
        timed(what, "1/s", ours, { name: `${UNLOGGED}, a Get for each read`, samples: singly }),
        timed(
          `${what}: sub-records`,
          "1/s",
          parts,
          { name: "records", samples: ours },
          ratioAtLeast(SUBRECORDS_LEAST),
        ),
      );
    }
  }
  return rows;
}

/** Records and sub-records beside RocksDB, all of which wait for the disk. */
async function synced(process: TaskProcess, count: number, rounds: number, run: Run): Promise<Row[]> {
  const rows: Row[] = [];
  for (const bytes of VALUES) {
    const plan = `a/${bytes}/synced/${SYNCED_THREADS}`;
    const loops = ["rocksdb", "capsule", "subrecords"].map((store) => loop(process, store, plan));
    const [theirs = [], records = [], parts = []] = await takeTurns(loops, count, rounds, run.progress);
    const what = `A, ${bytes} B, on the disk before it is acknowledged, ${SYNCED_THREADS} threads`;
    for (const [kind, ours] of [
      [what, records],
      [`${what}: sub-records`, parts],
    ] as const) {
      const peer = (of: (samples: Sample[]) => number[]) => ({
        name: "RocksDB with sync on",
        samples: of(theirs),
      });
      rows.push(
        timed(kind, "1/s", perOperation(ours), peer(perOperation), ratioAtLeast(SYNCED_LEAST)),
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

async function measure(binary: string, rocksdb: string, run: Run): Promise<Row[]> {
  await using process = ycsbProcess(binary, rocksdb);
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
    const binary = await buildYcsb();
    return (run) => measure(binary, rocksdb, run);
  },
};
