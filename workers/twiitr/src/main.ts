/**
 * The main job: one ring of a Durable Object in workerd, Deno and the wasmtime host, with AppAuth on it.
 *
 * It says what it does, then prints the ring, a command that works and the address of the live page. A node that ends
 * is started again; Ctrl-C stops everything. With `--admission dns` the network is closed: each node finds its certificate in a
 * zone of the DNS that the job makes and serves.
 */
import { join } from "node:path";

import { readAdmission } from "./admission.ts";
import { buildAll } from "./build.ts";
import type { ClosedNetwork } from "./closed.ts";
import { Cluster, type Ended, PLAN_FILE } from "./cluster.ts";
import { DATA } from "./folders.ts";
import { startRing } from "./launch.ts";
import { loadPlan, type Platform } from "./plan.ts";
import { printRing, say, sayError } from "./print.ts";
import type { Built } from "./programs.ts";

/** A node that ended is started again after this pause: long enough to see that it is gone. */
const RESTART_MS = 500;
/** Name of the network. */
const NETWORK = "twiitr";

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
  const admission = readAdmission(process.argv.slice(2));
  say("building");
  const built = await buildAll((what) => say(`  ${what}`), admission);
  // A node has other identities in a network of another name.
  const folder = admission === "dns" ? join(DATA, "closed") : DATA;
  const closed = admission === "dns" ? await openClosed(built, folder) : undefined;
  const plan = await loadPlan(join(folder, PLAN_FILE), closed?.network ?? NETWORK);
  const onEnded = ({ platform }: Ended): Promise<void> => restart(platform).catch(console.error);
  cluster = new Cluster(plan, built, folder, onEnded, closed);
  const verified = await startRing(cluster, built, say);
  printRing(cluster, verified);
}

async function openClosed(built: Built, folder: string): Promise<ClosedNetwork> {
  say("starting the authority of a closed network and its name server");
  // The package that this is built on may have been built only now.
  const { ClosedNetwork } = await import("./closed.ts");
  return ClosedNetwork.open(built.selfsame, folder, NETWORK);
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
