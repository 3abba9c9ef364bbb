import { buildCores, buildNetworks } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { interleaveLoops, type Loop, loopOf, medians, perOperation } from "../harness/loop.ts";
import type { Effort } from "../harness/measure.ts";
import { bars } from "../harness/plot.ts";
import type { TaskProcess } from "../harness/process.ts";
import { figure, type Row, ratioAtLeast, timed } from "../harness/row.ts";
import { hyperdhtProcess, meshProcess } from "../harness/runtimes.ts";
import { exactly } from "../harness/statistics.ts";

/** What hyperdht stores, and the operations that do it. */
const KINDS = [
  { kind: "mutable", name: "hyperdht mutablePut and mutableGet, signed" },
  { kind: "announce", name: "hyperdht announce and lookup, not verified when found" },
  { kind: "immutable", name: "hyperdht immutablePut and immutableGet, not signed" },
] as const;

/** Operations under way at a time. */
const WINDOW = 64;
/** Names of one publisher: about as many as it can sign at once. */
const OF_PUBLISHER = 1000;
const FASTER_THAN_HYPERDHT = 3;
const STORES_TO_FINDS = 0.5;
/** What the paper reports: 10,223 finds/s and 9,332 stores/s. */
const PAPER = { finds: 10_223, stores: 9_332 };

/** Objects stored in a turn, and turns. */
const FULL_STORE = { turn: 20_000, turns: 50 };
const QUICK_STORE = { turn: 1_000, turns: 2 };
/** Each find turn of a full run is longer than elsewhere: two processes are at work. */
const FULL_FINDS: Effort = { rounds: 15, roundMs: 1000, warmTurns: 3 };
const QUICK_FINDS: Effort = { rounds: 3, roundMs: 300, warmTurns: 1 };

/** A node that holds everything, and the process that asks it. */
interface Pair extends AsyncDisposable {
  readonly server: TaskProcess;
  readonly client: TaskProcess;
  readonly address: string;
}

async function pair(start: () => TaskProcess): Promise<Pair> {
  const server = start();
  const client = start();
  const address = await server.request("nodes/", 1);
  await client.request(`client/${address}`, 1);
  const close = async () => {
    await client[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  };
  return { server, client, address, [Symbol.asyncDispose]: close };
}

/** Stores of ours: the publishers of a turn are given all their names at once, as a program that starts has them. */
function storeLoop(name: string, { client, address }: Pair): Loop {
  const run = async (count: number) => {
    const publishers = Math.ceil(count / OF_PUBLISHER);
    await client.request(`publishers/${address}`, publishers);
    return JSON.parse(await client.request(`store/${count}`, count));
  };
  return { name, run };
}

/** Fills every node in turns, and returns nanoseconds for one object, of each turn. */
async function store(loops: readonly Loop[], run: Run): Promise<number[][]> {
  const { turn, turns } = run.quick ? QUICK_STORE : FULL_STORE;
  const samples: number[][] = loops.map(() => []);
  for (let round = 0; round < turns; round += 1) {
    run.progress(`round ${round + 1} of ${turns}: storing ${turn.toLocaleString("en-US")} objects each`);
    for (const [index, loop] of loops.entries()) {
      samples[index]?.push((await loop.run(turn)).ns / turn);
    }
  }
  return samples;
}

async function measure(files: { large: string; insecure: string; mesh: string }, run: Run): Promise<Row[]> {
  await using ours = await pair(() => meshProcess(files.mesh, files.large));
  await using insecure = await pair(() => meshProcess(files.mesh, files.insecure));
  await using peer = await pair(() => hyperdhtProcess());
  const puts = KINDS.map(({ kind, name }) => loopOf(name, peer.client, `put/${kind}/${WINDOW}`));
  const stored = await store([storeLoop("ours", ours), storeLoop("ours, insecure", insecure), ...puts], run);
  const gets = (window: number) => [
    loopOf(`find, ${window} at a time`, ours.client, `find/${window}`),
    loopOf(`find, ${window} at a time, insecure`, insecure.client, `find/${window}`),
    ...KINDS.map(({ kind, name }) =>
      loopOf(`${name}, ${window} at a time`, peer.client, `get/${kind}/${window}`),
    ),
  ];
  const effort = run.quick ? QUICK_FINDS : FULL_FINDS;
  const many = await interleaveLoops(gets(WINDOW), effort, run.progress);
  const alone = await interleaveLoops(gets(1), effort, run.progress);
  const { turn, turns } = run.quick ? QUICK_STORE : FULL_STORE;
  const [finds = [], findsInsecure = [], ...findsOfPeer] = many.map(perOperation);
  const [stores = [], storesInsecure = [], ...storesOfPeer] = stored;
  const [latency = [], , latencyOfPeer = []] = alone.map(medians);
  const where = `${WINDOW} at a time`;
  const rows = [
    figure("objects of 16 bytes that one node holds", "objects", exactly(turn * turns)),
    ...KINDS.map(({ name }, index) =>
      timed(
        `finds, ${where}`,
        "1/s",
        finds,
        { name, samples: findsOfPeer[index] ?? [] },
        index === 0 ? ratioAtLeast(FASTER_THAN_HYPERDHT) : null,
      ),
    ),
    timed(`finds, ${where}`, "1/s", finds, { name: "ours without cryptography", samples: findsInsecure }),
    timed("one find at a time, median", "us", latency, { name: KINDS[0].name, samples: latencyOfPeer }),
    timed(
      "stores",
      "1/s",
      stores,
      { name: "our finds", samples: paired(stores, finds) },
      ratioAtLeast(STORES_TO_FINDS),
    ),
    ...KINDS.map(({ name }, index) =>
      timed("stores", "1/s", stores, { name, samples: storesOfPeer[index] ?? [] }),
    ),
    timed("stores", "1/s", stores, { name: "ours without cryptography", samples: storesInsecure }),
  ];
  run.plot(draw(rows));
  return rows;
}

/** As many samples of the other side as there are of one: the two were not measured in the same rounds. */
function paired(ours: readonly number[], others: readonly number[]): number[] {
  const sorted = [...others].sort((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  return ours.map(() => median);
}

function draw(rows: readonly Row[]): string {
  const values = rows
    .filter(({ unit, peer }) => unit === "1/s" && peer !== null)
    .flatMap(({ what, peer, peerName }) => [{ name: `${what}: ${peerName}`, value: peer?.median ?? 0 }]);
  const own = (what: string) =>
    rows.find((row) => row.what.startsWith(what) && row.unit === "1/s")?.ours.median ?? 0;
  return bars("Operations a second on one node that holds everything", [
    { name: "finds: ours", value: own("finds") },
    { name: "stores: ours", value: own("stores") },
    { name: "finds: the paper's, other hardware", value: PAPER.finds },
    { name: "stores: the paper's, other hardware", value: PAPER.stores },
    ...values.filter(({ name }) => !name.endsWith("our finds")),
  ]);
}

/** Finds and stores of one node that resolves everything itself, over a socket (Themis, section 9.2). */
export const themisT2: Experiment = {
  name: "themis-t2",
  summary: "finds and stores served by one node over a socket beside hyperdht",
  onAllCores: true,
  async prepare() {
    const cores = await buildCores();
    const { mesh } = await buildNetworks();
    return (run) => measure({ ...cores, mesh }, run);
  },
};
