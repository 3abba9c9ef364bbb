/**
 * The main job: one ring of a Durable Object in workerd, Deno and the wasmtime host, with AppAuth on it.
 *
 * It says what it does, then prints the ring, a command that works and the address of the live page. A node that ends
 * is started again; Ctrl-C stops everything.
 */
import { join } from "node:path";

import { buildAll } from "./build.ts";
import { Cluster, PLAN_FILE } from "./cluster.ts";
import { DATA } from "./folders.ts";
import { startRing } from "./launch.ts";
import { loadPlan, type Platform } from "./plan.ts";
import { printRing, say, sayError } from "./print.ts";

/** A node that ended is started again after this pause: long enough to see that it is gone. */
const RESTART_MS = 500;

let isStopping = false;
let cluster: Cluster | undefined;

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
  process.on(signal, () => stop(0).catch(console.error));
try {
  await main();
} catch (error) {
  if (!isStopping) sayError(error instanceof Error ? error.message : String(error));
  await stop(1);
}

async function main(): Promise<void> {
  say("building");
  const built = await buildAll((what) => say(`  ${what}`));
  const plan = await loadPlan(join(DATA, PLAN_FILE), "twiitr");
  cluster = new Cluster(plan, built, DATA, ({ platform }) => restart(platform).catch(console.error));
  const verified = await startRing(cluster, built, say);
  printRing(cluster, verified);
}

async function restart(platform: Platform): Promise<void> {
  if (isStopping || cluster === undefined) return;
  say(`${platform} ended; starting it again (its log: ${cluster.logOf(platform)})`);
  await new Promise((resolve) => setTimeout(resolve, RESTART_MS));
  try {
    if (!isStopping && !cluster.isRunning(platform)) await cluster.start(platform);
    if (!isStopping) say(`${platform} is back`);
  } catch (error) {
    // Its end, which was the cause, brings this function here again.
    if (!isStopping) sayError(error instanceof Error ? error.message : String(error));
  }
}

async function stop(code: number): Promise<void> {
  if (isStopping) return;
  isStopping = true;
  if (cluster !== undefined) {
    say("stopping");
    await cluster.stopAll();
  }
  process.exit(code);
}
