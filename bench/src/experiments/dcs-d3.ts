import { buildYcsb, type Ycsb } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import type { Took } from "../harness/loop.ts";
import { lines } from "../harness/plot.ts";
import { type Row, ratioAtLeast, timed } from "../harness/row.ts";
import { ycsbProcess } from "../harness/runtimes.ts";

const CLIENTS = [1, 10, 100, 1000] as const;
const MANY = 1000;
/** A thousand clients may lose this much of what one client reaches. */
const LEFT_OF_ONE = 0.9;
const KINDS = [
  { key: "write", name: "write" },
  { key: "prove", name: "read and prove" },
  { key: "read", name: "read what is proven" },
] as const;
/** What the paper took for a million of each with a thousand clients, in seconds. */
const PAPER_SECONDS = { write: 7.5, prove: 2.8, read: 2.1 } as const;

/** Operations of each kind, and turns; a thousand clients have a request each at least. */
const FULL = { count: 1_000_000, rounds: 11 };
const QUICK = { count: 100_000, rounds: 2 };

type Turn = Readonly<Record<(typeof KINDS)[number]["key"], Took>>;

async function measure(ycsb: Ycsb, run: Run): Promise<Row[]> {
  const { count, rounds } = run.quick ? QUICK : FULL;
  await using process = ycsbProcess(ycsb);
  const turns: Turn[][] = CLIENTS.map(() => []);
  for (let round = 0; round < rounds; round += 1) {
    for (let turn = 0; turn < CLIENTS.length; turn += 1) {
      const index = (round + turn) % CLIENTS.length;
      run.progress(`round ${round + 1} of ${rounds}: ${CLIENTS[index]} clients`);
      turns[index]?.push(JSON.parse(await process.request(`clients/${CLIENTS[index]}`, count)) as Turn);
    }
  }
  const rates = KINDS.flatMap((kind) => rowsOf(turns, kind, "1/s", ({ ns }) => ns));
  const costs = KINDS.flatMap((kind) => rowsOf(turns, kind, "us", ({ cpu_ns }) => cpu_ns));
  run.plot(draw(rates));
  return [...rates, ...costs];
}

/** A row for each number of clients. */
function rowsOf(
  turns: readonly Turn[][],
  { key, name }: (typeof KINDS)[number],
  unit: "1/s" | "us",
  took: (turn: Took) => number,
): Row[] {
  const of = (index: number) => (turns[index] ?? []).map((turn) => took(turn[key]));
  const isRate = unit === "1/s";
  return CLIENTS.map((clients, index) =>
    timed(
      `${name}, ${clients} clients${isRate ? "" : ": processor time"}`,
      unit,
      of(index),
      clients === 1 ? null : { name: "one client", samples: of(0) },
      isRate && clients === MANY ? ratioAtLeast(LEFT_OF_ONE) : null,
    ),
  );
}

function draw(rows: readonly Row[]): string {
  const series = KINDS.flatMap(({ key, name }, place) => [
    {
      name,
      points: CLIENTS.map((clients, index) => {
        const row = rows[place * CLIENTS.length + index];
        return [clients, row?.ours.median ?? 0] as const;
      }),
    },
    { name: `${key}, the paper's`, points: [[MANY, 1e6 / PAPER_SECONDS[key]] as const] },
  ]);
  return lines("clients", [{ title: "operations a second of all clients together", series }]);
}

/** Writes, proofs and reads against the number of clients of one server (DCS, section 6.5). */
export const dcsD3: Experiment = {
  name: "dcs-d3",
  summary: "writes, proofs and reads of one to a thousand clients of one server",
  onAllCores: true,
  async prepare() {
    const ycsb = await buildYcsb();
    return (run) => measure(ycsb, run);
  },
};
