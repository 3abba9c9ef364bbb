import { buildCores, buildNetworks } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { bars } from "../harness/plot.ts";
import { type Row, ratioAtMost, timed } from "../harness/row.ts";
import { meshProcess } from "../harness/runtimes.ts";

/** Members of the network that a node joins and leaves. */
const MEMBERS = 10;
const FULL_TURNS = 50;
const QUICK_TURNS = 8;
const OF_JOIN = 0.1;
/** What the paper reports: 780 ms for both, less than 50 ms of it to leave. */
const PAPER_MS = { both: 780, leave: 50 };

/** Nanoseconds of one turn. */
interface Turn {
  /** From the start of a process to its node being in the ring. */
  readonly started: number;
  /** From the making of a new identity to the node being in the ring. */
  readonly joined: number;
  readonly left: number;
}

/** Starts a process whose node joins with a new identity, leaves, and ends. */
async function blink(mesh: string, core: string, address: string): Promise<Turn> {
  const begin = process.hrtime.bigint();
  await using node = meshProcess(mesh, core);
  const answer = JSON.parse(await node.request(`blink/${address}`, 1));
  const both = Number(process.hrtime.bigint() - begin);
  return { started: both - answer.leave_ns, joined: answer.join_ns, left: answer.leave_ns };
}

async function measure(mesh: string, core: string, run: Run): Promise<Row[]> {
  await using ring = meshProcess(mesh, core);
  run.progress(`starting ${MEMBERS} nodes`);
  const address = await ring.request("nodes/", MEMBERS);
  const turns: Turn[] = [];
  const count = run.quick ? QUICK_TURNS : FULL_TURNS;
  for (let turn = 0; turn < count; turn += 1) {
    run.progress(`round ${turn + 1} of ${count}`);
    turns.push(await blink(mesh, core, address));
  }
  const left = turns.map((turn) => turn.left);
  const started = { name: "join, with the start of the process", samples: turns.map((turn) => turn.started) };
  const joined = { name: "join, in a process that runs", samples: turns.map((turn) => turn.joined) };
  const rows = [
    timed("leave", "ms", left, started, ratioAtMost(OF_JOIN)),
    timed("leave", "ms", left, joined, ratioAtMost(OF_JOIN)),
  ];
  const value = (row: Row | undefined) => row?.peer?.median ?? 0;
  run.plot(
    bars("Milliseconds to join a network of ten, and to leave it", [
      { name: started.name, value: value(rows[0]) },
      { name: joined.name, value: value(rows[1]) },
      { name: "leave", value: rows[0]?.ours.median ?? 0 },
      { name: "the paper's join and leave, other hardware", value: PAPER_MS.both },
      { name: "the paper's leave, other hardware", value: PAPER_MS.leave },
    ]),
  );
  return rows;
}

/** A node that joins and leaves at once (Themis, section 9.2). */
export const themisT5: Experiment = {
  name: "themis-t5",
  summary: "time to join a network with a new identity, and to leave it",
  onAllCores: true,
  async prepare() {
    const { large } = await buildCores();
    const { mesh } = await buildNetworks();
    return (run) => measure(mesh, large, run);
  },
};
