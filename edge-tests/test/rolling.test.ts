/**
 * A service is called a thousand times a second from three runtimes for a minute, while one replica after another is
 * killed and replaced and a new version goes from nothing to all. Nobody who calls may notice.
 */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Miniflare } from "miniflare";
import { bundleWorker } from "selfsame-twiitr/build";
import { Child } from "selfsame-twiitr/child";
import { localWorker } from "selfsame-twiitr/local-worker";
import { freePort } from "selfsame-twiitr/ports";

import { DATA, startCluster, type TestCluster } from "../lib/cluster.ts";
import { ROOT } from "../lib/run.ts";
import type { CallerSettings } from "../rolling/caller.ts";
import {
  HostReplica,
  ObjectReplica,
  type Replica,
  ScriptReplica,
  type Surroundings,
} from "../rolling/service.ts";
import { type Second, Tally } from "../rolling/tally.ts";

/** Calls in a second, by the runtime that calls. */
const RATES = { node: 600, deno: 250, workerd: 150 };
/** What the new version is to get, one after the other. */
const WEIGHTS = [0, 0.1, 0.25, 0.5, 0.75, 1];
const MEASURED_MS = 6_000;
/** What is to be called in all. */
const LEAST_CALLS = 60_000;
/** Callers ask the ring again every 5 s, and holders may take a moment: until then a share is that of the step before. */
const KNOWN_MS = 6_000;
/** How far the share may be from the weight. */
const MOST_OFF = 0.02;
/** Time between two kills. */
const KILL_EVERY_MS = 4_000;
const OBJECTS = ["one", "two", "three", "four"];
/** The object that calls; whoever is killed cannot tell its own callers. */
const ENTRANCE = "entrance";

const folder = join(DATA, "rolling");
const seconds: Second[] = [];
let test: TestCluster;
let miniflare: Miniflare;
let around: Surroundings;
let workerUrl: string;
let old: Replica[];
let fresh: Replica[];

before(async () => {
  test = await startCluster("rolling");
  const { cluster, built } = test;
  mkdirSync(folder, { recursive: true });
  around = { cluster, built, folder, firstPort: 8900 };
  workerUrl = await startWorker();
  const objects = OBJECTS.map((name) => new ObjectReplica(name, workerUrl, around));
  old = [...objects, new HostReplica(around), new ScriptReplica("deno", "deno", around)];
  fresh = [new ScriptReplica("node-2", "node", around), new ScriptReplica("deno-2", "deno", around)];
  for (const replica of old) await replica.publish("1", 1);
  for (const replica of fresh) await replica.publish("2", 0);
});

after(async () => {
  await Promise.all([...(old ?? []), ...(fresh ?? [])].map((replica) => replica.stop()));
  await miniflare?.dispose();
  await test?.stop();
});

/** Starts the Worker with four nodes, which join the ring of the main job. */
async function startWorker(): Promise<string> {
  const { cluster } = test;
  const bundle = join(folder, "worker");
  await bundleWorker(join(ROOT, "edge-tests/rolling/worker.ts"), bundle);
  const port = await freePort(8880);
  const url = `http://127.0.0.1:${port}`;
  const bootstrap = (["wasmtime", "deno"] as const).flatMap((platform) =>
    cluster.bootstrapOf(platform, "http"),
  );
  miniflare = new Miniflare(
    localWorker({
      modules: {
        "worker.js": readFileSync(join(bundle, "worker.js"), "utf8"),
        "core.wasm": new Uint8Array(readFileSync(join(bundle, "core.wasm"))),
      },
      port,
      bindings: {
        NETWORK: cluster.plan.network,
        URL: url,
        BOOTSTRAP: bootstrap.join(" "),
        OWNER: cluster.owner ?? "",
        NODES: [ENTRANCE, ...OBJECTS].join(" "),
      },
      durableObjects: { NODE: "Node" },
    }),
  );
  await miniflare.ready;
  return url;
}

/** Calls from a process of its own; its seconds are collected. */
function startCaller(runtime: "node" | "deno"): Child {
  const { cluster, built } = test;
  const settings: CallerSettings = {
    network: cluster.plan.network,
    bootstrap: [...cluster.bootstrapOf("deno", "ws"), ...cluster.bootstrapOf("wasmtime", "ws")],
    owner: cluster.owner ?? "",
    rate: RATES[runtime],
  };
  const args = [join(ROOT, "edge-tests/rolling/caller.ts"), JSON.stringify(settings)];
  const isDeno = runtime === "deno";
  return Child.start({
    name: `caller-${runtime}`,
    command: isDeno ? built.deno : process.execPath,
    args: isDeno ? ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all", ...args] : args,
    cwd: ROOT,
    env: process.env as Record<string, string>,
    log: join(folder, `caller-${runtime}.log`),
    isReady: (message) => {
      if ("second" in message) seconds.push(message as unknown as Second);
      return message.url === "calling";
    },
  });
}

/** What is being done with each replica. */
const turns = new Map<Replica, Promise<void>>();

/** Does one thing after the other with a replica: one that is being replaced cannot be told anything. */
function inTurn(replica: Replica, work: () => Promise<void>): Promise<void> {
  const turn = (turns.get(replica) ?? Promise.resolve()).then(work);
  turns.set(replica, turn);
  return turn;
}

/** Kills and replaces one replica after the other until it is told to stop. */
async function killOneAfterAnother(isOver: () => boolean): Promise<string[]> {
  const killed: string[] = [];
  for (let turn = 0; !isOver(); turn++) {
    const all = [...old, ...fresh];
    const replica = all[turn % all.length] as Replica;
    const next = delay(KILL_EVERY_MS);
    await inTurn(replica, () => replica.replace());
    killed.push(replica.name);
    await next;
  }
  return killed;
}

async function publishAll(replicas: Replica[], version: "1" | "2", weight: number): Promise<void> {
  await Promise.all(replicas.map((replica) => inTurn(replica, () => replica.publish(version, weight))));
}

/** Gives the new version its weights; says from when to when each was known to the callers, in seconds since 1970. */
async function shiftWeights(): Promise<{ weight: number; from: number; to: number }[]> {
  const steps: { weight: number; from: number; to: number }[] = [];
  for (const weight of WEIGHTS) {
    if (weight > 0) await publishAll(fresh, "2", weight);
    if (weight === 1) await publishAll(old, "1", 0);
    await delay(KNOWN_MS);
    const from = Math.ceil(Date.now() / 1000);
    await delay(MEASURED_MS);
    steps.push({ weight, from, to: Math.floor(Date.now() / 1000) });
  }
  return steps;
}

/** How many of the calls were answered by the new version, by the weight it had. */
function shareOf({ from, to }: { from: number; to: number }): number {
  const during = seconds.filter(({ second }) => second >= from && second < to);
  const of = (version: string): number =>
    during.reduce((total, { versions }) => total + (versions[version] ?? 0), 0);
  return of("2") / (of("1") + of("2"));
}

/** Why calls failed, each reason with its number. */
function failures(): [string, number][] {
  const counts = new Map<string, number>();
  for (const [why, count] of seconds.flatMap((second) => Object.entries(second.failures))) {
    counts.set(why, (counts.get(why) ?? 0) + count);
  }
  return [...counts];
}

it("answers every call while replicas are killed and a new version takes over", async (context) => {
  const callers = [startCaller("node"), startCaller("deno")];
  await Promise.all(callers.map((caller) => caller.ready));
  const started = performance.now();
  const tally = new Tally((second) => seconds.push(second));
  let isOver = false;
  const fromWorker = tally.run(
    RATES.workerd,
    () => isOver,
    () => fetch(`${workerUrl}/call`),
  );
  const killing = killOneAfterAnother(() => isOver);
  const shifting = shiftWeights().finally(() => {
    isOver = true;
  });
  const [steps, killed] = await Promise.all([shifting, killing]);
  const lasted_s = (performance.now() - started) / 1000;
  await Promise.all([fromWorker, ...callers.map((caller) => caller.stop())]);

  const calls = seconds.reduce((total, second) => total + second.calls, 0);
  const slowest_ms = Math.max(...seconds.map((second) => second.slowest_ms));
  context.diagnostic(
    `${calls} calls in ${lasted_s.toFixed(0)} s, the slowest answered in ${slowest_ms.toFixed(0)} ms`,
  );
  context.diagnostic(`killed and replaced: ${killed.join(", ")}`);
  const shares = steps.map((step) => ({ weight: step.weight, share: shareOf(step) }));
  for (const { weight, share } of shares) context.diagnostic(`weight ${weight}: share ${share.toFixed(4)}`);

  assert.deepEqual(failures(), []);
  assert.ok(calls >= LEAST_CALLS, `${calls} calls`);
  for (const { weight, share } of shares) {
    assert.ok(Math.abs(share - weight) <= MOST_OFF, `weight ${weight} has a share of ${share}`);
  }
});
