import { buildRpc } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { lines } from "../harness/plot.ts";
import type { TaskProcess } from "../harness/process.ts";
import { figure, type Row, ratioAtMost, timed } from "../harness/row.ts";
import { rpcProcess } from "../harness/runtimes.ts";
import { deviation, exactly, mean, quantiles } from "../harness/statistics.ts";

const TRANSPORTS = [
  { key: "bare", name: "bare UDP" },
  { key: "plain", name: "plain" },
  { key: "sealed", name: "sealed" },
  { key: "quic", name: "QUIC stream, warm" },
  { key: "https", name: "HTTPS, kept alive" },
  { key: "grpc", name: "gRPC" },
  { key: "grpc-tls", name: "gRPC over TLS" },
] as const;
type Transport = (typeof TRANSPORTS)[number]["key"];

const ABOVE_PLAIN = 1.35;
const DEVIATION_ABOVE_PLAIN = 1.1;

/** Echoes of a turn are few: other work of the machine disturbs some turns, and the median of the others stands. */
const ECHOES = 50;
/** The first echoes of a turn find the caches of the processor cold, as other transports ran meanwhile, and do not count. */
const UNTIMED = 25;
const FULL = { rounds: 200, warm: 5000 };
const QUICK = { rounds: 20, warm: 1000 };

const PERCENTILES = [50, 90, 99, 99.9] as const;
const BINS_A_DECADE = 20;

/** Echoes of one turn: nanoseconds of each, and processor time of one. */
interface Turn {
  readonly cpu_ns: number;
  readonly took: readonly number[];
}

type Turns = ReadonlyMap<Transport, Turn[]>;

async function echo(process: TaskProcess, transport: Transport, count: number): Promise<Turn> {
  return JSON.parse(await process.request(`echo/${transport}`, count)) as Turn;
}

async function measure(binary: string, run: Run): Promise<Row[]> {
  const { rounds, warm } = run.quick ? QUICK : FULL;
  await using process = rpcProcess(binary);
  for (const { key, name } of TRANSPORTS) {
    run.progress(`warming up: ${name}`);
    await echo(process, key, warm);
  }
  const turns: Turns = new Map(TRANSPORTS.map(({ key }) => [key, []]));
  for (let round = 0; round < rounds; round += 1) {
    run.progress(`round ${round + 1} of ${rounds}`);
    for (let turn = 0; turn < TRANSPORTS.length; turn += 1) {
      const transport = TRANSPORTS[(round + turn) % TRANSPORTS.length]?.key ?? "plain";
      const { cpu_ns, took } = await echo(process, transport, UNTIMED + ECHOES);
      turns.get(transport)?.push({ cpu_ns, took: took.slice(UNTIMED) });
    }
  }
  run.plot(draw(turns));
  return [...meanRows(turns), ...deviationRows(turns), ...costRows(turns), ...percentileRows(turns)];
}

function samples(turns: Turns, transport: Transport, of: (turn: Turn) => number): number[] {
  return (turns.get(transport) ?? []).map(of);
}

function meanRows(turns: Turns): Row[] {
  const of = (transport: Transport) => samples(turns, transport, ({ took }) => mean(took));
  const plain = { name: "plain", samples: of("plain") };
  const sealed = { name: "sealed", samples: of("sealed") };
  return [
    timed("mean of an echo, sealed", "us", of("sealed"), plain, ratioAtMost(ABOVE_PLAIN)),
    ...TRANSPORTS.filter(({ key }) => key !== "sealed").map(({ key, name }) =>
      timed(`mean of an echo, ${name}`, "us", of(key), key === "plain" ? null : sealed),
    ),
  ];
}

function deviationRows(turns: Turns): Row[] {
  const of = (transport: Transport) => samples(turns, transport, ({ took }) => deviation(took));
  const plain = { name: "plain", samples: of("plain") };
  return [
    timed("deviation of an echo, sealed", "us", of("sealed"), plain, ratioAtMost(DEVIATION_ABOVE_PLAIN)),
    ...TRANSPORTS.filter(({ key }) => key !== "sealed" && key !== "plain").map(({ key, name }) =>
      timed(`deviation of an echo, ${name}`, "us", of(key), plain),
    ),
  ];
}

function costRows(turns: Turns): Row[] {
  const of = (transport: Transport) => samples(turns, transport, ({ cpu_ns }) => cpu_ns);
  return TRANSPORTS.map(({ key, name }) =>
    timed(
      `processor time of an echo, ${name}`,
      "us",
      of(key),
      key === "plain" ? null : { name: "plain", samples: of("plain") },
    ),
  );
}

/** Percentiles of all echoes, with those that other work of the machine interrupted. */
function percentileRows(turns: Turns): Row[] {
  return TRANSPORTS.flatMap(({ key, name }) => {
    const all = (turns.get(key) ?? []).flatMap(({ took }) => took);
    const at = quantiles(
      all,
      PERCENTILES.map((percent) => percent / 100),
    );
    return PERCENTILES.map((percent, index) =>
      figure(`percentile ${percent} of all echoes, ${name}`, "us", exactly((at[index] ?? 0) / 1e3)),
    );
  });
}

/** A histogram of each transport, in bins of equal ratio. */
function draw(turns: Turns): string {
  const series = TRANSPORTS.map(({ key, name }) => {
    const bins = new Map<number, number>();
    for (const ns of (turns.get(key) ?? []).flatMap(({ took }) => took)) {
      const bin = Math.round(Math.log10(ns / 1e3) * BINS_A_DECADE);
      bins.set(bin, (bins.get(bin) ?? 0) + 1);
    }
    const sorted = [...bins].sort(([a], [b]) => a - b);
    return { name, points: sorted.map(([bin, echoes]) => [10 ** (bin / BINS_A_DECADE), echoes] as const) };
  });
  return lines("us", [{ title: "echoes that took so long", series }]);
}

/** Sequential echoes of four bytes (Encrypted R2P2, figure 5). */
export const r2p2R1: Experiment = {
  name: "r2p2-r1",
  summary:
    "sequential echoes of the encrypted RPC beside the same datagrams without a seal, gRPC, QUIC, HTTPS",
  async prepare() {
    const binary = await buildRpc();
    return (run) => measure(binary, run);
  },
};
