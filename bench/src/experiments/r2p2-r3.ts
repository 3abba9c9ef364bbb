import { buildRpc, type RpcFiles } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { bars } from "../harness/plot.ts";
import { figure, type Row, timed } from "../harness/row.ts";
import { rpcProcess } from "../harness/runtimes.ts";
import { exactly, mean } from "../harness/statistics.ts";

/** What the paper's figure 4 compares, and what `fetch` takes beside it. */
const DEPLOYMENTS = [
  {
    name: "shared ticket key, idempotent call",
    first: "first/ticket",
    later: "echo/sealed",
    datagrams: "datagrams/ticket",
  },
  {
    name: "shared ticket key, bound call",
    first: "first/bound",
    later: "echo/bound",
    datagrams: "datagrams/bound",
  },
  {
    name: "pre-shared key, idempotent call",
    first: "first/pre-shared",
    later: "echo/pre-shared",
    datagrams: "datagrams/pre-shared",
  },
  {
    name: "Diffie-Hellman each time, call in a session",
    first: "first/session",
    later: "echo/session",
    datagrams: null,
  },
  { name: "Diffie-Hellman each time, fetch", first: "first/fetch", later: "echo/fetch", datagrams: null },
] as const;

const FULL = { rounds: 41, first: 20, later: 50, warm: 200 };
const QUICK = { rounds: 7, first: 10, later: 30, warm: 30 };

/** Requests of one turn: nanoseconds of each, and processor time of one. */
interface Turn {
  readonly cpu_ns: number;
  readonly took: readonly number[];
}

async function measure(files: RpcFiles, run: Run): Promise<Row[]> {
  const { rounds, first, later, warm } = run.quick ? QUICK : FULL;
  await using process = rpcProcess(files);
  const take = async (task: string, count: number) => JSON.parse(await process.request(task, count)) as Turn;
  const works = DEPLOYMENTS.flatMap((deployment) => [
    { name: `${deployment.name}: first request`, task: deployment.first, count: first },
    { name: `${deployment.name}: later request`, task: deployment.later, count: later },
  ]);
  for (const { name, task } of works) {
    run.progress(`warming up: ${name}`);
    await take(task, warm);
  }
  const turns: Turn[][] = works.map(() => []);
  for (let round = 0; round < rounds; round += 1) {
    run.progress(`round ${round + 1} of ${rounds}`);
    for (let at = 0; at < works.length; at += 1) {
      const index = (round + at) % works.length;
      const work = works[index];
      if (work !== undefined) turns[index]?.push(await take(work.task, work.count));
    }
  }
  const rows: Row[] = works.flatMap(({ name }, index) => {
    const samples = turns[index] ?? [];
    return [
      timed(
        name,
        "us",
        samples.map(({ took }) => mean(took)),
      ),
      timed(
        "  its processor time, both sides",
        "us",
        samples.map(({ cpu_ns }) => cpu_ns),
      ),
    ];
  });
  for (const { name, datagrams } of DEPLOYMENTS) {
    if (datagrams === null) continue;
    const said = JSON.parse(await process.request(datagrams, first)) as { there: number; back: number };
    rows.push(
      figure(`${name}: datagrams of a first request, there and back`, "", exactly(said.there + said.back)),
    );
  }
  run.plot(
    bars(
      "us of a request",
      rows.filter(({ unit }) => unit === "us").map(({ what, ours }) => ({ name: what, value: ours.median })),
    ),
  );
  return rows;
}

/** The deployments of Encrypted R2P2, figure 4; what each gives away is in `docs/rpc.md`. */
export const r2p2R3: Experiment = {
  name: "r2p2-r3",
  summary: "first and later requests in each deployment of keys",
  async prepare() {
    const files = await buildRpc();
    return (run) => measure(files, run);
  },
};
