import { buildConverge } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { lines } from "../harness/plot.ts";
import { TaskProcess } from "../harness/process.ts";
import { type Bar, oursAtMost, type Row, timed } from "../harness/row.ts";
import { pairedRatio, summarise } from "../harness/statistics.ts";

/** Records that differ, of so many in all. */
const DIFFERING = [10, 1000, 10_000];
const RECORDS = "100,000";
const FULL_WORLDS = 9;
const QUICK_WORLDS = 2;
const MOST_ROUND_TRIPS = 3;
/** Bytes of a name, how often those of the names that differ may be sent, and what comes on top. */
const NAME = 32;
const TIMES = 2.5;
const ON_TOP = 1000;

/** The peers, as the runner calls them and as people do. */
const PEERS = {
  negentropy: "negentropy",
  naive: "all names, both ways",
  lu: "Lu's algorithm",
  "bloom-lu": "Bloom filter, then Lu's algorithm",
} as const;
const OURS = "ours";

/** What knowing the difference of one world cost. */
interface Cost {
  readonly bytes: number;
  readonly roundTrips: number;
  readonly ns: number;
  readonly missed: number;
  readonly needless: number;
}

/** The costs of one algorithm in the same worlds as all others. */
type Costs = readonly Cost[];

async function inWorlds(runner: TaskProcess, task: string, worlds: number): Promise<Costs> {
  const costs: Cost[] = [];
  for (let seed = 1; seed <= worlds; seed += 1) costs.push(JSON.parse(await runner.request(task, seed)));
  return costs;
}

function bytesAtMost(differing: number): Bar {
  const most = TIMES * NAME * differing + ON_TOP;
  return {
    text: `ours <= ${TIMES} x ${NAME} x ${differing} + ${ON_TOP}`,
    met: ({ ours }) => ours <= most,
  };
}

/** A row of one figure in each world, beside a peer's. */
function beside(
  what: string,
  unit: string,
  of: (cost: Cost) => number,
  [ours, peer]: readonly [Costs, Costs],
  peerName: string,
  bar: Bar | null,
): Row {
  const [own, theirs] = [ours.map(of), peer.map(of)];
  const ratio = pairedRatio(own, theirs);
  return { what, unit, ours: summarise(own), peer: summarise(theirs), peerName, ratio, bar };
}

function rowsOf(differing: number, ours: Costs, peers: ReadonlyMap<string, Costs>): Row[] {
  const what = `${differing.toLocaleString("en-US")} of ${RECORDS} differ`;
  const rows: Row[] = [];
  for (const [name, costs] of peers) {
    const isFirst = rows.length === 0;
    const pair = [ours, costs] as const;
    const bytes = isFirst ? bytesAtMost(differing) : null;
    const trips = isFirst ? oursAtMost(MOST_ROUND_TRIPS) : null;
    rows.push(
      beside(`${what}: to know which`, "B", (cost) => cost.bytes, pair, name, bytes),
      beside(`${what}: round trips`, "", (cost) => cost.roundTrips, pair, name, trips),
      timed(
        `${what}: both sides' time`,
        "ms",
        ours.map(({ ns }) => ns),
        { name, samples: costs.map(({ ns }) => ns) },
      ),
    );
  }
  return rows;
}

async function measure(binary: string, run: Run): Promise<Row[]> {
  await using runner = new TaskProcess("bench-converge", binary, []);
  const worlds = run.quick ? QUICK_WORLDS : FULL_WORLDS;
  const rows: Row[] = [];
  const points = new Map<string, [number, number][]>();
  for (const differing of DIFFERING) {
    const ask = (algorithm: string) => {
      run.progress(`${algorithm}, ${differing} differ`);
      return inWorlds(runner, `${algorithm}/${differing}`, worlds);
    };
    const ours = await ask(OURS);
    const peers = new Map<string, Costs>();
    for (const [algorithm, name] of Object.entries(PEERS)) peers.set(name, await ask(algorithm));
    rows.push(...rowsOf(differing, ours, peers));
    for (const [name, costs] of [["selfsame", ours] as const, ...peers]) {
      const { median } = summarise(costs.map(({ bytes }) => bytes));
      points.set(name, [...(points.get(name) ?? []), [differing, median]]);
    }
  }
  const series = [...points].map(([name, line]) => ({ name, points: line }));
  run.plot(lines(`records that differ, of ${RECORDS}`, [{ title: "Bytes to know which", series }]));
  return rows;
}

/** Two replicas that find out in what they differ (DCS, section 3.4, which its authors have not measured). */
export const dcsD4: Experiment = {
  name: "dcs-d4",
  summary: "bytes, round trips and time for two replicas to know in which of 100,000 records they differ",
  async prepare() {
    const binary = await buildConverge();
    return (run) => measure(binary, run);
  },
};
