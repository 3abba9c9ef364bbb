/**
 * Six members and two leaves under load for as long as it is told, with a disturbance every two minutes:
 *
 *     npm run test:soak -- [--minutes N] [--seed N] [--rate N] [--every SECONDS] [--heaps] [--short]
 *
 * Callers on all hosts make `--rate` calls a second (70) of mixed kinds. Of each platform one process lives from the beginning to the
 * end; its resident memory is sampled every ten seconds, and after a quarter of its life a line is fitted. The bars: no failed
 * call that is safe to try again (`calls.ts` says which and how), no duplicate of a POST, growth of at most 5 MB an hour beyond
 * the noise of the fit (`trendOf`), in workerd also beyond what a Worker of no mesh grows by that makes as many fetches, descriptors,
 * threads and lines of the log flat, and in the end every acknowledged append in three identical exports. `--heaps` also asks for the
 * heaps of JavaScript, each after a collection, which changes what is measured. `--short` is for a suite of tests: less than a minute,
 * and no bar for what processes take. Logs stay in `.data/soak`. Where `SELFSAME_BIN` names the program `selfsame`, nothing is built.
 */
import { mkdirSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { buildHost, bundleWorker } from "selfsame-twiitr/build";
import { freePort } from "selfsame-twiitr/ports";

import { DATA } from "../lib/cluster.ts";
import { selfsame } from "../lib/sidecar.ts";
import { Random } from "../recover/random.ts";
import { createAt, designCapsule, exportAll, type SoakCapsule, writerSettings } from "./capsule.ts";
import { CONTROL, Control } from "./control-process.ts";
import { Disturbances, disturb } from "./disturbances.ts";
import { Load } from "./load.ts";
import type { Participant, Programs } from "./participant.ts";
import { judgeCalls, judgeExports, judgeLives, listed, tellCalls, type Verdict } from "./report.ts";
import { Sampler } from "./sampler.ts";
import type { Life } from "./samples.ts";
import { type Stage, startStage } from "./stage.ts";

const FOLDER = join(DATA, "soak");
const CONTROL_PORT = 22_900;
const MINUTE_MS = 60_000;
/** Between two samples, and two lines of progress. */
const SAMPLE_MS = 10_000;
/** Between two looks at what they hold. */
const LOOK_MS = 1_000;
/** Between two looks at heaps. */
const HEAP_MS = 15_000;
/** Within this time after the last call providers have let go of what callers left. */
const SETTLE_MS = 30_000;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "40" },
    seed: { type: "string", default: "1" },
    rate: { type: "string", default: "70" },
    every: { type: "string", default: "120" },
    heaps: { type: "boolean", default: false },
    short: { type: "boolean", default: false },
  },
});

/** How long, how fast and how roughly: minutes, calls a second, and seconds between disturbances. */
interface Pace {
  readonly minutes: number;
  readonly rate: number;
  readonly every: number;
  /** Records of the capsule when the load begins. */
  readonly filled: number;
  /** Records that each writer appends before, one at a time. */
  readonly warmed: number;
}

/** What replicas remember of a capsule grows with each append up to a bound, 8 MiB in TypeScript: with so many records it is reached. */
const FILLED = 30_000;
/** What a writer takes grows with its first thousand appends, by 14 MB in Node, and no more after that: 12,000 were tried. */
const WARMED = 2_000;

/** What a short run takes in place of the options: it shows that calls and appends survive disturbances, not what grows. */
const SHORT: Pace = { minutes: 0.6, rate: 15, every: 15, filled: 1, warmed: 1 };

function number(name: "minutes" | "rate" | "every"): number {
  const value = Number(values[name]);
  if (!(value > 0)) throw new Error(`--${name} is a number above 0, not ${values[name]}`);
  return value;
}

const tell = (line: string): void => void process.stdout.write(`${line}\n`);
const note = (line: string): void => void process.stderr.write(`${line}\n`);

async function build(): Promise<Programs> {
  if (process.env.SELFSAME_BIN === undefined) await buildHost((what) => note(`building ${what}`));
  const worker = join(FOLDER, "worker");
  await bundleWorker(join(import.meta.dirname, "worker.ts"), worker);
  await bundleWorker(join(import.meta.dirname, "control.ts"), join(FOLDER, "control-bundle"));
  return { selfsame: selfsame(), worker };
}

/** Counts ids of POSTs that providers were asked for. */
async function openLedger(count: (id: string) => void): Promise<{ server: Server; url: string }> {
  const server = createServer((request, response) => {
    const id = String(request.url).slice(1);
    if (id !== CONTROL) count(id);
    request.resume();
    response.end();
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** Disturbs one after the other until it is over. */
async function disturbAll(
  disturbances: Disturbances,
  every_ms: number,
  over: AbortSignal,
): Promise<string[]> {
  const faults: string[] = [];
  const pause = (ms: number): Promise<unknown> =>
    delay(Math.max(0, ms), undefined, { signal: over }).catch(() => undefined);
  // The last calls find all as it was.
  for (await pause(every_ms / 2); !over.aborted; ) {
    const { kind, victim } = disturbances.next();
    note(`disturbance: ${kind} ${victim.name}`);
    const begun = performance.now();
    await disturb(kind, victim).catch((error: unknown) => faults.push(`${kind} ${victim.name}: ${error}`));
    note(`disturbance: ${kind} ${victim.name} is over`);
    await pause(every_ms - (performance.now() - begun));
  }
  return faults;
}

/** Whether providers in TypeScript hold nothing any more of what callers have left. */
async function judgeGauges(participants: readonly Participant[]): Promise<Verdict[]> {
  const deadline = performance.now() + SETTLE_MS;
  for (;;) {
    const verdicts = await Promise.all(participants.filter(({ hasDesk }) => hasDesk).map(judgeGauge));
    if (verdicts.every(({ ok }) => ok) || performance.now() > deadline) return verdicts;
    await delay(LOOK_MS);
  }
}

async function judgeGauge(participant: Participant): Promise<Verdict> {
  const told = await participant.tell("memory").catch((error: unknown) => ({ error: String(error) }));
  const { events, sockets, error } = told as Record<string, number | string | undefined>;
  const what = `${participant.name} lets go of streams and sockets that callers leave`;
  return {
    what: `${what} (${error ?? `${events} and ${sockets} are left`})`,
    ok: events === 0 && sockets === 0,
  };
}

/** Who takes part in a run, and what it is about. */
interface Run {
  readonly random: Random;
  readonly stage: Stage;
  readonly control: Control;
  readonly capsule: SoakCapsule;
  readonly load: Load;
}

const participantsOf = ({ members, leaves }: Stage): Participant[] => [...members, ...leaves];

/** Creates the capsule, and lets replicas fetch it and writers open it. */
async function shareCapsule({ stage, capsule }: Run, { filled, warmed }: Pace): Promise<void> {
  const { firstReplica, replicas, writers } = stage;
  await createAt(capsule, firstReplica.participant, firstReplica.url, filled);
  for (const replica of replicas) if (replica.hasDesk) await replica.tell("round");
  note(`appending ${warmed} records with each writer`);
  for (const writer of writers) {
    await writer.tell("writer", await writerSettings(capsule, writer.name, replicas, warmed));
  }
}

/** Calls and disturbs for as long as it is told; resolves with the lives of all processes and what could not be disturbed. */
async function loadAll(
  run: Run,
  { minutes, rate, every }: Pace,
): Promise<{ lives: Life[]; faults: string[] }> {
  const { stage, control, load, random } = run;
  const sampler = new Sampler([...participantsOf(stage), control]);
  const over = new AbortController();
  const { signal } = over;
  setTimeout(() => over.abort(), minutes * MINUTE_MS);
  const model = stage.members.find(({ host }) => host === "workerd");
  const disturbances = new Disturbances(random, stage.members, stage.mortals);
  const [faults] = await Promise.all([
    disturbAll(disturbances, every * 1000, signal),
    load.run(rate, signal),
    sampler.run(SAMPLE_MS, signal, (sampled) => note(`${sampled}; ${load.summary}`)),
    model === undefined ? undefined : control.follow(model, signal),
    values.heaps ? sampler.runHeaps(HEAP_MS, signal) : undefined,
  ]);
  return { lives: sampler.lives, faults };
}

/** Judges all but what processes take, and prints what became of the calls. */
async function judge({ stage, load, capsule }: Run, faults: readonly string[]): Promise<Verdict[]> {
  const participants = participantsOf(stage);
  const ended = participants.flatMap((participant) => participant.ended());
  const verdicts: Verdict[] = [
    ...judgeCalls(load),
    { what: `disturbances end${listed(faults)}`, ok: faults.length === 0 },
    { what: `no process ended by itself${listed(ended)}`, ok: ended.length === 0 },
    ...(await judgeGauges(participants)),
  ];
  tellCalls(load, tell);
  note("exporting the capsule from each replica");
  const living = stage.members.filter((member) => !stage.mortals.includes(member));
  const bootstrap = living.map((member) => member.bootstrap);
  const exports = await exportAll(capsule, stage.network, bootstrap, stage.replicas, note);
  return [...verdicts, ...judgeExports(exports, load.acknowledged.append)];
}

async function main(): Promise<number> {
  const pace: Pace = values.short
    ? SHORT
    : {
        minutes: number("minutes"),
        rate: number("rate"),
        every: number("every"),
        filled: FILLED,
        warmed: WARMED,
      };
  const random = new Random(`soak ${values.seed}`);
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  const programs = await build();
  let load: Load | undefined;
  const ledger = await openLedger((id) => load?.count(id));
  const capsule = await designCapsule(["deno-a", "leaf-node"]);
  const parts = { folder: FOLDER, random, programs, ledger: ledger.url, capsule };
  const stage = await startStage({ ...parts, inspects: values.heaps, note });
  const control = await Control.start({
    bundle: join(FOLDER, "control-bundle"),
    folder: join(FOLDER, CONTROL),
    port: await freePort(CONTROL_PORT),
    ledger: ledger.url,
  });
  load = new Load(random, { ...stage, callers: participantsOf(stage) });
  const run: Run = { random, stage, control, capsule, load };
  try {
    await shareCapsule(run, pace);
    const { lives, faults } = await loadAll(run, pace);
    const verdicts = await judge(run, faults);
    const taken = judgeLives(lives, pace.minutes * 60, tell);
    if (!values.short) verdicts.push(...taken);
    for (const { what, ok } of verdicts) if (!ok) tell(`FAILED: ${what}`);
    const failed = verdicts.filter(({ ok }) => !ok).length;
    tell(`${verdicts.length - failed} passed, ${failed} failed`);
    return failed;
  } finally {
    await Promise.all([...participantsOf(stage), control].map((one) => one.stop()));
    stage.close();
    ledger.server.close();
  }
}

process.exit((await main()) === 0 ? 0 : 1);
