import { buildRpc, type RpcFiles } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { lines } from "../harness/plot.ts";
import type { TaskProcess } from "../harness/process.ts";
import { type Bar, figure, type Row, ratioAtLeast, ratioAtMost, timed } from "../harness/row.ts";
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

/** Parts of what sealing costs, each measured alone. */
const PARTS = [
  { task: "part/cryptography", echoes: 4000 },
  { task: "part/steps", echoes: 1000 },
  { task: "part/module", echoes: 1000 },
  { task: "part/engine", echoes: 1000 },
  { task: "part/kernel", echoes: 75 },
] as const;
type Part = (typeof PARTS)[number]["task"];
/** The parts must add up to this much of it. */
const EXPLAINED = 0.95;

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

/** Nanoseconds of the processor for the part of one echo, by turn. */
type Parts = ReadonlyMap<Part, number[]>;
type Turns = ReadonlyMap<Transport, Turn[]>;

async function take(process: TaskProcess, task: string, count: number): Promise<Turn> {
  return JSON.parse(await process.request(task, count)) as Turn;
}

async function measure(files: RpcFiles, run: Run): Promise<Row[]> {
  const { rounds, warm } = run.quick ? QUICK : FULL;
  await using process = rpcProcess(files);
  for (const { key, name } of TRANSPORTS) {
    run.progress(`warming up: ${name}`);
    await take(process, `echo/${key}`, warm);
  }
  const parts: Parts = new Map(PARTS.map(({ task }) => [task, []]));
  for (const { task } of PARTS) await take(process, task, warm);
  const turns: Turns = new Map(TRANSPORTS.map(({ key }) => [key, []]));
  for (let round = 0; round < rounds; round += 1) {
    run.progress(`round ${round + 1} of ${rounds}`);
    for (let turn = 0; turn < TRANSPORTS.length; turn += 1) {
      const transport = TRANSPORTS[(round + turn) % TRANSPORTS.length]?.key ?? "plain";
      const { cpu_ns, took } = await take(process, `echo/${transport}`, UNTIMED + ECHOES);
      turns.get(transport)?.push({ cpu_ns, took: took.slice(UNTIMED) });
    }
    for (const { task, echoes } of PARTS) parts.get(task)?.push((await take(process, task, echoes)).cpu_ns);
  }
  run.plot(draw(turns));
  return [
    ...meanRows(turns),
    ...deviationRows(turns),
    ...costRows(turns),
    ...partRows(turns, parts),
    ...percentileRows(turns),
  ];
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

/** What sealed echoes take more of the processor than plain ones, and of what that consists. */
function partRows(turns: Turns, parts: Parts): Row[] {
  const of = (transport: Transport) => samples(turns, transport, ({ cpu_ns }) => cpu_ns);
  const minus = (from: readonly number[], ...less: readonly number[][]) =>
    from.map((value, turn) => less.reduce((left, other) => left - (other[turn] ?? Number.NaN), value));
  const part = (task: Part) => parts.get(task) ?? [];
  const cryptography = part("part/cryptography");
  const memory = part("part/steps");
  const state = minus(part("part/module"), cryptography, memory, part("part/engine"));
  const kernel = minus(part("part/kernel"), of("plain"));
  const sum = cryptography.map(
    (value, turn) => value + (memory[turn] ?? 0) + (state[turn] ?? 0) + (kernel[turn] ?? 0),
  );
  const difference = { name: "what sealing costs", samples: minus(of("sealed"), of("plain")) };
  const row = (what: string, values: readonly number[], bar: Bar | null = null) =>
    timed(what, "us", values, difference, bar);
  return [
    timed("what sealing costs an echo", "us", difference.samples),
    row("  cryptography: two packets sealed and opened", cryptography),
    row("  memory: entering the module four times", memory),
    row("  state: the rest of the module, less the framing of plain calls", state),
    row("  kernel: longer datagrams, and waits with a time", kernel),
    row("  their sum", sum, ratioAtLeast(EXPLAINED)),
  ];
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
    const files = await buildRpc();
    return (run) => measure(files, run);
  },
};
