/**
 * Six members and two leaves under load for as long as it is told, with a disturbance every two minutes:
 *
 *     npm run test:soak -- [--minutes N] [--seed N] [--rate N] [--every SECONDS] [--heaps]
 *
 * Callers on all hosts make `--rate` calls a second (70) of mixed kinds. Of each platform one process lives from the beginning to the
 * end; its resident memory is sampled every ten seconds, and after a quarter of its life a line is fitted. The bars: no failed
 * call that is safe to try again (`calls.ts` says which and how), no duplicate of a POST, growth of at most 5 MB an hour beyond
 * the noise of the fit (`trendOf`), descriptors, threads and lines of the log flat, and in the end every acknowledged append in
 * three identical exports. `--heaps` also asks for the heaps of JavaScript, each after a collection, which changes what is measured. Logs stay in `.data/soak`. Where `SELFSAME_BIN` names the program `selfsame`, nothing is built.
 */
import { mkdirSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { buildHost, bundleWorker } from "selfsame-twiitr/build";

import { DATA } from "../lib/cluster.ts";
import { selfsame } from "../lib/sidecar.ts";
import { Random } from "../recover/random.ts";
import { createAt, designCapsule, type Exported, exportAll, writerSettings } from "./capsule.ts";
import { Disturbances, disturb } from "./disturbances.ts";
import { Load } from "./load.ts";
import type { Participant, Programs } from "./participant.ts";
import { judgeCalls, judgeExports, judgeLives, tellCalls, type Verdict } from "./report.ts";
import { Sampler } from "./sampler.ts";
import { startStage } from "./stage.ts";

const FOLDER = join(DATA, "soak");
const MINUTE_MS = 60_000;
/** Between two samples, and two lines of progress. */
const SAMPLE_MS = 10_000;
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
  },
});

function number(name: "minutes" | "seed" | "rate" | "every"): number {
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
  return { selfsame: selfsame(), worker };
}

/** Counts ids of POSTs that providers were asked for. */
async function openLedger(count: (id: string) => void): Promise<{ server: Server; url: string }> {
  const server = createServer((request, response) => {
    count(String(request.url).slice(1));
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
    delay(ms, undefined, { signal: over }).catch(() => undefined);
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
  await delay(SETTLE_MS);
  const asked = participants.filter(({ hasDesk }) => hasDesk);
  return Promise.all(
    asked.map(async (participant): Promise<Verdict> => {
      const { events, sockets } = (await participant.tell("memory").catch(() => ({}))) as Record<
        string,
        number
      >;
      const what = `${participant.name} has let go of ${events} streams and ${sockets} sockets`;
      return { what: `${what}: none is left`, ok: events === 0 && sockets === 0 };
    }),
  );
}

async function main(): Promise<number> {
  const [minutes, rate, every] = [number("minutes"), number("rate"), number("every")];
  const random = new Random(`soak ${values.seed}`);
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  const programs = await build();
  let load: Load | undefined;
  const ledger = await openLedger((id) => load?.count(id));
  const capsule = await designCapsule(["deno-a", "leaf-node"]);
  const stage = await startStage({
    folder: FOLDER,
    random,
    programs,
    ledger: ledger.url,
    capsule,
    inspects: values.heaps,
    note,
  });
  const { members, leaves, mortals, replicas, writers } = stage;
  const participants = [...members, ...leaves];
  try {
    note("the capsule is created");
    await createAt(capsule, stage.firstReplica.participant, stage.firstReplica.url);
    for (const replica of replicas) if (replica.hasDesk) await replica.tell("round");
    for (const writer of writers)
      await writer.tell("writer", await writerSettings(capsule, writer.name, replicas));
    load = new Load(random, { callers: participants, writers, leaves });
    const sampler = new Sampler(participants);
    const over = new AbortController();
    setTimeout(() => over.abort(), minutes * MINUTE_MS);
    const loading = load.run(rate, over.signal);
    const disturbing = disturbAll(new Disturbances(random, members, mortals), every * 1000, over.signal);
    const looking = values.heaps ? sampler.runHeaps(HEAP_MS, over.signal) : undefined;
    await sampler.run(SAMPLE_MS, over.signal, (sampled) => {
      note(
        `${sampled}; ${load?.begun} calls, ${load?.openCount} open, ${[...(load?.tallies.values() ?? [])].reduce((sum, { failed }) => sum + failed, 0)} failed`,
      );
    });
    const faults = await disturbing;
    await looking;
    await loading;
    const verdicts: Verdict[] = [...judgeCalls(load)];
    verdicts.push({
      what: `disturbances end${faults.map((fault) => ` (${fault})`).join("")}`,
      ok: faults.length === 0,
    });
    const ended = participants.flatMap((participant) => participant.ended());
    verdicts.push({
      what: `no process ended by itself${ended.map((label) => ` (${label})`).join("")}`,
      ok: ended.length === 0,
    });
    verdicts.push(...(await judgeGauges(participants)));
    tellCalls(load, tell);
    verdicts.push(...judgeLives(sampler.lives, minutes * 60, tell));
    note("exporting the capsule from each replica");
    const bootstrap = members.filter((member) => !mortals.includes(member)).map((member) => member.bootstrap);
    const exports: Exported[] = await exportAll(capsule, stage.network, bootstrap, replicas, note);
    verdicts.push(...judgeExports(exports, load.acknowledged.append));
    for (const { what, ok } of verdicts) if (!ok) tell(`FAILED: ${what}`);
    const failed = verdicts.filter(({ ok }) => !ok).length;
    tell(`${verdicts.length - failed} passed, ${failed} failed`);
    return failed;
  } finally {
    await Promise.all(participants.map((participant) => participant.stop()));
    stage.close();
    ledger.server.close();
  }
}

process.exit((await main()) === 0 ? 0 : 1);
