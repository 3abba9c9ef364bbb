import { mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildAll } from "selfsame-twiitr/build";
import { Cluster, type Ended, PLAN_FILE } from "selfsame-twiitr/cluster";
import { startRing } from "selfsame-twiitr/launch";
import { loadPlan } from "selfsame-twiitr/plan";
import type { Built } from "selfsame-twiitr/programs";

/** Where tests keep what may be looked at afterwards; not part of the repository. */
export const DATA: string = resolve(import.meta.dirname, "../.data");

/** The password of the demo user `ada`. */
export const PASSWORD = "correct horse battery staple";

/** A running cluster of a test; `stop` ends all of it. */
export type TestCluster = { cluster: Cluster; built: Built; stop: () => Promise<void> };

/** Starts the main job's three nodes with new identities, in a folder that keeps their logs. */
export async function startCluster(
  name: string,
  onEnded: (ended: Ended) => void = () => undefined,
): Promise<TestCluster> {
  const folder = join(DATA, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const built = await buildAll(() => undefined);
  const cluster = new Cluster(await loadPlan(join(folder, PLAN_FILE), name), built, folder, onEnded);
  try {
    await startRing(cluster, built, () => undefined);
  } catch (error) {
    await cluster.stopAll();
    throw error;
  }
  return { cluster, built, stop: () => cluster.stopAll() };
}

/** Tries until it works; rejects with the last failure after the time. Resolves with the seconds it took. */
export async function within(timeoutMs: number, attempt: () => Promise<void>): Promise<number> {
  const start = performance.now();
  for (;;) {
    try {
      await attempt();
      return (performance.now() - start) / 1000;
    } catch (error) {
      if (performance.now() - start > timeoutMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
