import { buildCommand, buildCores, buildNetworks } from "../harness/build.ts";
import type { Experiment, Run } from "../harness/experiment.ts";
import { bars } from "../harness/plot.ts";
import { Bootstraps, joinAndLeave, type Life } from "../harness/ring.ts";
import { type Row, ratioAtMost, timed } from "../harness/row.ts";
import { meshProcess } from "../harness/runtimes.ts";

/** Members of the network that a node joins and leaves. */
const MEMBERS = 10;
const FULL_TURNS = 50;
const QUICK_TURNS = 8;
const OF_JOIN = 0.1;
/** What the paper reports: 780 ms for both, less than 50 ms of it to leave. */
const PAPER_MS = { both: 780, leave: 50 };

/** Nanoseconds of one turn in a process that runs. */
interface Turn {
  /** From the making of a new identity to the node being in the ring. */
  readonly joined: number;
  readonly left: number;
}

/** Lets nodes of one process join with new identities and leave, one after the other. */
async function blinkOften(mesh: string, core: string, count: number, run: Run): Promise<Turn[]> {
  await using ring = meshProcess(mesh, core);
  const address = await ring.request("nodes/", MEMBERS);
  await using node = meshProcess(mesh, core);
  const turns: Turn[] = [];
  for (let turn = 0; turn < count; turn += 1) {
    run.progress(`node ${turn + 1} of ${count}`);
    const answer = JSON.parse(await node.request(`blink/${address}`, 1));
    turns.push({ joined: answer.join_ns, left: answer.leave_ns });
  }
  return turns;
}

/** Lets processes join and leave, one after the other. */
async function startOften(binary: string, count: number, run: Run): Promise<Life[]> {
  await using ring = await Bootstraps.start(binary, MEMBERS);
  const lives: Life[] = [];
  for (let turn = 0; turn < count; turn += 1) {
    run.progress(`process ${turn + 1} of ${count}`);
    lives.push(await joinAndLeave(binary, ring.at(turn)));
  }
  return lives;
}

interface Files {
  readonly binary: string;
  readonly mesh: string;
  readonly core: string;
}

async function measure({ binary, mesh, core }: Files, run: Run): Promise<Row[]> {
  const count = run.quick ? QUICK_TURNS : FULL_TURNS;
  const lives = await startOften(binary, count, run);
  const turns = await blinkOften(mesh, core, count, run);
  const started = { name: "join, with the start of the process", samples: lives.map((life) => life.joined) };
  const joined = { name: "join, in a process that runs", samples: turns.map((turn) => turn.joined) };
  const ended = lives.map((life) => life.left);
  const left = turns.map((turn) => turn.left);
  const rows = [
    timed("leave, from the signal to the process", "ms", ended, started, ratioAtMost(OF_JOIN)),
    timed("leave, in a process that runs", "ms", left, joined),
  ];
  run.plot(
    bars("Milliseconds to join a network of ten, and to leave it", [
      ...rows.flatMap(({ what, ours, peer, peerName }) => [
        { name: `${peerName}`, value: peer?.median ?? 0 },
        { name: what, value: ours.median },
      ]),
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
    const binary = await buildCommand();
    const { large } = await buildCores();
    const { mesh } = await buildNetworks();
    return (run) => measure({ binary, mesh, core: large }, run);
  },
};
