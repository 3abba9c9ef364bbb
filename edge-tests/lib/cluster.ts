import { mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import type { AdmissionName } from "selfsame-twiitr/admission";
import { buildAll } from "selfsame-twiitr/build";
import { ClosedNetwork } from "selfsame-twiitr/closed";
import { Cluster, PLAN_FILE } from "selfsame-twiitr/cluster";
import { startRing } from "selfsame-twiitr/launch";
import { loadPlan } from "selfsame-twiitr/plan";
import type { Built } from "selfsame-twiitr/programs";

/** Where tests keep what may be looked at afterwards; not part of the repository. */
export const DATA: string = resolve(import.meta.dirname, "../.data");

/** The password of the demo user `ada`. */
export const PASSWORD = "correct horse battery staple";

/** A running cluster of a test; `stop` ends all of it. */
export type TestCluster = { cluster: Cluster; built: Built; stop: () => Promise<void> };

/** How a cluster is started. */
export type ClusterOptions = {
  /** How the network admits its nodes; it is open unless told. */
  admission?: AdmissionName;
  /** Whether nodes go on with what they have in the folder. */
  keep?: boolean;
};

/** Starts the main job's three nodes with new identities, in a folder that keeps their logs. */
export async function startCluster(
  name: string,
  { admission = "open", keep = false }: ClusterOptions = {},
): Promise<TestCluster> {
  const folder = join(DATA, name);
  if (!keep) rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const built = await buildAll(() => undefined, admission);
  const closed = admission === "dns" ? await ClosedNetwork.open(built.selfsame, folder, name) : undefined;
  const plan = await loadPlan(join(folder, PLAN_FILE), closed?.network ?? name);
  const cluster = new Cluster(plan, built, folder, () => undefined, closed);
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
