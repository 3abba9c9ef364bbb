/**
 * Rings of Rust, Deno and workerd members in which one member is copied, restored, moved or has a wrong clock:
 *
 *     npm run test:recover -- [--scenario NAME] [--runtime rust|deno|workerd] [--seed N] [--seeds N] [--jobs N] [--json]
 *
 * Each run starts a ring of real processes on 127.0.0.1. It passes when every member has the right neighbours and reaches
 * every name within 30 seconds of the last change; where a copy runs beside the original, the copy must have ended with
 * `DuplicateIdentity` by then.
 */
import { rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, relative } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { buildHost, bundleWorker } from "selfsame-twiitr/build";

import { DATA } from "../lib/cluster.ts";
import { ROOT } from "../lib/run.ts";
import { buildClockLibrary } from "./clock.ts";
import { type MemberProcess, type Programs, RUNTIMES, type Runtime } from "./member-process.ts";
import { Random } from "./random.ts";
import { SCENARIOS, type Scenario } from "./scenarios.ts";
import { TestRing } from "./test-ring.ts";

/** Longest time from the last change to a correct ring, or to the end of a copy. */
const RECOVER_MS = 30_000;
/** How a copy that runs beside its original ends. */
const DUPLICATE = "DuplicateIdentity";
/** Between two looks at a copy. */
const LOOK_MS = 250;
const SEEDS = 10;
const FOLDER = join(DATA, "recover");

type Task = { readonly scenario: string; readonly runtime: Runtime; readonly seed: number };
type Outcome = Task & {
  readonly passed: boolean;
  readonly recovered_s: number | null;
  readonly why: string | null;
};
type Tools = { readonly programs: Programs; readonly clockLibrary: string };

const { values } = parseArgs({
  options: {
    scenario: { type: "string", multiple: true },
    runtime: { type: "string", multiple: true },
    seed: { type: "string", default: "1" },
    seeds: { type: "string" },
    jobs: { type: "string" },
    json: { type: "boolean", default: false },
  },
});

/** Tells progress apart from results. */
function note(text: string): void {
  (values.json ? process.stderr : process.stdout).write(`${text}\n`);
}

function chosen<T extends string>(
  what: string,
  all: readonly T[],
  named: readonly string[] | undefined,
): T[] {
  for (const name of named ?? []) {
    if (!all.includes(name as T)) throw new Error(`there is no ${what} ${name}: take ${all.join(", ")}`);
  }
  return all.filter((name) => named?.includes(name) ?? true);
}

function count(name: string, text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1)
    throw new Error(`--${name} is a number from 1, not ${text}`);
  return number;
}

function tasks(): Task[] {
  const scenarios = chosen("scenario", Object.keys(SCENARIOS), values.scenario);
  const runtimes = chosen("runtime", RUNTIMES, values.runtime);
  const first = count("seed", values.seed);
  const seeds = Array.from({ length: count("seeds", values.seeds ?? `${SEEDS}`) }, (_, at) => first + at);
  return scenarios.flatMap((scenario) =>
    runtimes.flatMap((runtime) => seeds.map((seed) => ({ scenario, runtime, seed }))),
  );
}

/** Plays one scenario in a ring of its own; its folder is kept when it fails. */
async function play(task: Task, { programs, clockLibrary }: Tools): Promise<Outcome> {
  const label = `${task.scenario} ${task.runtime} ${task.seed}`;
  const folder = join(FOLDER, label.replaceAll(" ", "-"));
  rmSync(folder, { recursive: true, force: true });
  const random = new Random(label);
  const ring = new TestRing({ folder, programs, clockLibrary, random });
  const say = (what: string): void => note(`${label}: ${what}`);
  let copy: MemberProcess | undefined;
  try {
    say("starting a ring");
    const subject = await ring.start(task.runtime);
    await ring.untilCorrect(RECOVER_MS).catch((error: unknown) => {
      throw new Error(`before anything happened: ${error instanceof Error ? error.message : error}`);
    });
    copy = await (SCENARIOS[task.scenario] as Scenario)({ ring, subject, random, folder, say });
    if (copy !== undefined) await untilDuplicate(copy, say);
    say("waiting for a correct ring");
    const recovered_s = await ring.untilCorrect(RECOVER_MS);
    rmSync(folder, { recursive: true, force: true });
    return { ...task, passed: true, recovered_s, why: null };
  } catch (error) {
    const why = `${error instanceof Error ? error.message : error}; logs in ${relative(ROOT, folder)}`;
    return { ...task, passed: false, recovered_s: null, why };
  } finally {
    await Promise.all([ring.stop(), copy?.dispose()]);
  }
}

/** Waits until a copy has ended because its original runs. */
async function untilDuplicate(copy: MemberProcess, say: (what: string) => void): Promise<void> {
  say(`waiting until the copy ends with ${DUPLICATE}`);
  const deadline = performance.now() + RECOVER_MS;
  for (;;) {
    const code = await copy.endedWith().catch(() => undefined);
    if (code === DUPLICATE) return;
    if (!copy.isRunning) throw new Error(`the copy ended with ${code ?? "no code"}`);
    if (performance.now() > deadline) throw new Error("the copy runs on beside the original");
    await delay(LOOK_MS);
  }
}

function tell(outcome: Outcome): void {
  if (values.json) {
    process.stdout.write(`${JSON.stringify(outcome)}\n`);
    return;
  }
  const { scenario, runtime, seed, passed, recovered_s, why } = outcome;
  const what = passed ? `correct after ${recovered_s?.toFixed(1)} s` : why;
  note(`${passed ? "ok  " : "FAIL"} ${scenario} ${runtime} seed ${seed}: ${what}`);
}

function summarize(outcomes: readonly Outcome[]): void {
  for (const scenario of new Set(outcomes.map((outcome) => outcome.scenario))) {
    for (const runtime of new Set(outcomes.map((outcome) => outcome.runtime))) {
      const these = outcomes.filter((each) => each.scenario === scenario && each.runtime === runtime);
      const passed = these.filter((each) => each.passed);
      const slowest_s = Math.max(0, ...passed.map(({ recovered_s }) => recovered_s ?? 0));
      const took = passed.length > 0 ? `, the slowest after ${slowest_s.toFixed(1)} s` : "";
      note(`${scenario.padEnd(16)}${runtime.padEnd(8)} ${passed.length} of ${these.length} correct${took}`);
    }
  }
}

async function main(): Promise<void> {
  const waiting = tasks();
  const jobs = count("jobs", values.jobs ?? `${availableParallelism()}`);
  const { selfsame } = await buildHost((what) => note(`building ${what}`));
  const worker = join(FOLDER, "worker");
  await bundleWorker(join(import.meta.dirname, "worker.ts"), worker);
  const tools = { programs: { selfsame, worker }, clockLibrary: await buildClockLibrary(FOLDER) };
  const outcomes: Outcome[] = [];
  const work = async (): Promise<void> => {
    for (let task = waiting.shift(); task !== undefined; task = waiting.shift()) {
      const outcome = await play(task, tools);
      outcomes.push(outcome);
      tell(outcome);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  summarize(outcomes);
  const passed = outcomes.filter((outcome) => outcome.passed).length;
  const failed = outcomes.length - passed;
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
  // Servers of members that were never stopped would keep this process.
  process.exit(failed === 0 ? 0 : 1);
}

await main();
