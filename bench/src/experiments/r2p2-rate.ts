import process from "node:process";

import { buildRpc, type RpcFiles } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { lines } from "../harness/plot.ts";
import { Problem } from "../harness/problem.ts";
import type { TaskProcess } from "../harness/process.ts";
import { figure, oursAtMost, type Row, timed } from "../harness/row.ts";
import { rpcProcess } from "../harness/runtimes.ts";
import { exactly } from "../harness/statistics.ts";

const LOADS = [
  { name: "one client, 64 calls under way", task: "load", sources: 1, window: 64, bar: null },
  { name: "one client, 256 calls under way", task: "load", sources: 1, window: 256, bar: oursAtMost(2) },
  { name: "1000 sources, a call each", task: "sources", sources: 1000, window: 1, bar: null },
  { name: "1000 sources, four calls each", task: "sources", sources: 1000, window: 4, bar: oursAtMost(3.3) },
] as const;
type Load = (typeof LOADS)[number];

const FULL = { rounds: 11, requests: 200_000, endurance: 20_000_000 };
const QUICK = { rounds: 3, requests: 50_000, endurance: 1_000_000 };
/** Requests of the run that watches memory, in place of twenty million. */
const ENDURANCE = "RPC_REQUESTS";
/** Memory is told so often in that run. */
const STEPS = 20;
const GROWTH_BYTES = 2e6;
const MB = 1e6;

interface Usage {
  readonly cpu_ns: number;
  readonly resident: number;
}

/** One turn of a load: nanoseconds for one request, elapsed and of the server's processor time. */
interface Turn {
  readonly ns: number;
  readonly cpu_ns: number;
}

/** A server and its clients, each a process. */
class Pair {
  readonly #server: TaskProcess;
  readonly #client: TaskProcess;
  readonly #bootstrap: string;

  constructor(server: TaskProcess, client: TaskProcess, bootstrap: string) {
    this.#server = server;
    this.#client = client;
    this.#bootstrap = bootstrap;
  }

  async usage(): Promise<Usage> {
    return JSON.parse(await this.#server.request("usage", 1)) as Usage;
  }

  async run({ task, sources, window }: Load, count: number): Promise<Turn> {
    const before = await this.usage();
    const said = await this.#client.request(`${task}|${this.#bootstrap}|${sources}|${window}`, count);
    const after = await this.usage();
    const { ns } = JSON.parse(said) as { ns: number };
    return { ns: ns / count, cpu_ns: (after.cpu_ns - before.cpu_ns) / count };
  }
}

function endurance(fallback: number): number {
  const wanted = process.env[ENDURANCE];
  if (wanted === undefined) return fallback;
  const count = Number(wanted);
  if (!Number.isSafeInteger(count) || count < STEPS) throw new Problem(`${ENDURANCE} is no count: ${wanted}`);
  return count;
}

async function measure(files: RpcFiles, run: Run): Promise<Row[]> {
  const effort = run.quick ? QUICK : FULL;
  const requests = endurance(effort.endurance);
  await using server = rpcProcess(files);
  await using client = rpcProcess(files);
  const pair = new Pair(server, client, await server.request("serve", 1));
  for (const load of LOADS) {
    run.progress(`warming up: ${load.name}`);
    await pair.run(load, effort.requests);
  }
  const turns: Turn[][] = LOADS.map(() => []);
  for (let round = 0; round < effort.rounds; round += 1) {
    for (let turn = 0; turn < LOADS.length; turn += 1) {
      const index = (round + turn) % LOADS.length;
      const load = LOADS[index];
      if (load === undefined) continue;
      run.progress(`round ${round + 1} of ${effort.rounds}: ${load.name}`);
      turns[index]?.push(await pair.run(load, effort.requests));
    }
  }
  const [, load] = LOADS;
  const memory = await watchMemory(pair, load, requests, run);
  run.plot(
    lines("requests", [
      { title: "memory of the server, MB", series: [{ name: "resident", points: memory }] },
    ]),
  );
  return [...rateRows(turns), ...memoryRows(memory, requests)];
}

/** Memory of the server in megabytes, by the number of requests so far. */
async function watchMemory(pair: Pair, load: Load, requests: number, run: Run) {
  const memory: (readonly [requests: number, megabytes: number])[] = [];
  const step = Math.round(requests / STEPS);
  for (let done = step; done <= requests; done += step) {
    run.progress(`memory: ${done} of ${requests} requests`);
    await pair.run(load, step);
    memory.push([done, (await pair.usage()).resident / MB]);
  }
  return memory;
}

function rateRows(turns: readonly Turn[][]): Row[] {
  const of = (index: number, value: (turn: Turn) => number) => (turns[index] ?? []).map(value);
  return [
    ...LOADS.map(({ name, bar }, index) =>
      timed(
        `processor time of the server for a request, ${name}`,
        "us",
        of(index, ({ cpu_ns }) => cpu_ns),
        null,
        bar,
      ),
    ),
    ...LOADS.map(({ name }, index) =>
      timed(
        `requests, ${name}`,
        "1/s",
        of(index, ({ ns }) => ns),
      ),
    ),
  ];
}

function memoryRows(memory: readonly (readonly [number, number])[], requests: number): Row[] {
  const sizes = memory.map(([, megabytes]) => megabytes);
  const growth = (sizes.at(-1) ?? 0) - (sizes[0] ?? 0);
  return [
    figure("memory of the server", "MB", exactly(sizes[0] ?? 0)),
    figure(
      `  its growth over ${requests / 1e6} million requests`,
      "MB",
      exactly(growth),
      oursAtMost(GROWTH_BYTES / MB),
    ),
  ];
}

/** What a sealed request costs a server that has many, and whether its memory stays flat. */
export const r2p2Rate: Experiment = {
  name: "r2p2-rate",
  summary: "processor time and memory of a server of the encrypted RPC under load",
  onAllCores: true,
  async prepare() {
    const files = await buildRpc();
    return (run) => measure(files, run);
  },
};
