import { buildRpc, type RpcFiles } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { bars } from "../harness/plot.ts";
import type { TaskProcess } from "../harness/process.ts";
import { figure, oursAtMost, type Row, ratioAtMost, timed } from "../harness/row.ts";
import { rpcProcess } from "../harness/runtimes.ts";
import { exactly, mean } from "../harness/statistics.ts";

const WAYS = [
  { task: "first/ticket", name: "with a ticket" },
  { task: "first/early", name: "QUIC, 0-RTT" },
  { task: "first/client", name: "with a ticket, by a new client" },
  { task: "first/endpoint", name: "QUIC, 0-RTT, by a new endpoint" },
  { task: "first/rpc", name: "without a ticket, by a fresh node" },
  { task: "first/fetch", name: "fetch by a fresh node" },
] as const;
type Task = (typeof WAYS)[number]["task"];

const OF_QUIC = 0.1;
const ABOVE_FETCH = 1.2;
const FULL = { rounds: 41, requests: 20, warm: 200 };
const QUICK = { rounds: 7, requests: 10, warm: 30 };

/** First requests of one turn: nanoseconds of each, and processor time of one. */
interface Turn {
  readonly cpu_ns: number;
  readonly took: readonly number[];
}

interface Datagrams {
  readonly there: number;
  readonly back: number;
}

async function measure(files: RpcFiles, run: Run): Promise<Row[]> {
  const { rounds, requests, warm } = run.quick ? QUICK : FULL;
  await using process = rpcProcess(files);
  const turn = async (task: Task, count: number) => JSON.parse(await process.request(task, count)) as Turn;
  for (const { task, name } of WAYS) {
    run.progress(`warming up: ${name}`);
    await turn(task, warm);
  }
  const turns = new Map<Task, Turn[]>(WAYS.map(({ task }) => [task, []]));
  for (let round = 0; round < rounds; round += 1) {
    run.progress(`round ${round + 1} of ${rounds}`);
    for (let at = 0; at < WAYS.length; at += 1) {
      const way = WAYS[(round + at) % WAYS.length];
      if (way !== undefined) turns.get(way.task)?.push(await turn(way.task, requests));
    }
  }
  const rows = [...timeRows(turns), ...(await datagramRows(process, requests))];
  const times = rows.filter(({ unit }) => unit === "us");
  run.plot(
    bars(
      "us of a first request",
      times.map(({ what, ours }) => ({ name: what, value: ours.median })),
    ),
  );
  return rows;
}

function timeRows(turns: ReadonlyMap<Task, readonly Turn[]>): Row[] {
  const elapsed = (task: Task) => (turns.get(task) ?? []).map(({ took }) => mean(took));
  const cpu = (task: Task) => (turns.get(task) ?? []).map(({ cpu_ns }) => cpu_ns);
  const compared = [
    ["first/ticket", "first/early", ratioAtMost(OF_QUIC)],
    ["first/client", "first/endpoint", null],
    ["first/rpc", "first/fetch", ratioAtMost(ABOVE_FETCH)],
  ] as const;
  const nameOf = (task: Task) => WAYS.find((way) => way.task === task)?.name ?? task;
  return compared.flatMap(([ours, peer, bar]) => [
    timed(
      `first request ${nameOf(ours)}`,
      "us",
      elapsed(ours),
      { name: nameOf(peer), samples: elapsed(peer) },
      bar,
    ),
    timed(
      `  its processor time, both sides`,
      "us",
      cpu(ours),
      { name: nameOf(peer), samples: cpu(peer) },
      ours === "first/ticket" ? bar : null,
    ),
  ]);
}

async function datagramRows(process: TaskProcess, count: number): Promise<Row[]> {
  const counted = async (task: string) => JSON.parse(await process.request(task, count)) as Datagrams;
  const ours = await counted("datagrams/ticket");
  const quic = await counted("datagrams/early");
  return [
    figure("datagrams to the server, with a ticket", "", exactly(ours.there), oursAtMost(1)),
    figure("datagrams back", "", exactly(ours.back), oursAtMost(1)),
    figure("datagrams to the server, QUIC, 0-RTT and the rest of its connection", "", exactly(quic.there)),
    figure("datagrams back, QUIC", "", exactly(quic.back)),
  ];
}

/** First requests of clients that a server has not met. */
export const r2p2First: Experiment = {
  name: "r2p2-first",
  summary: "first requests of clients of the encrypted RPC beside QUIC's 0-RTT",
  async prepare() {
    const files = await buildRpc();
    return (run) => measure(files, run);
  },
};
