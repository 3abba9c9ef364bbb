import type { Cluster } from "./cluster.ts";
import { PLATFORMS, SERVICES } from "./plan.ts";
import type { NodeStatus } from "./status.ts";

/** Between two looks. */
const LOOK_MS = 100;

/**
 * What is wrong with the ring as its members see it, or nothing: each must have the member before it as predecessor
 * and the one after it as first successor.
 */
export function faultsOf(statuses: readonly NodeStatus[]): string[] {
  const ids = statuses.map((status) => status.id).sort();
  return statuses.flatMap((status) => {
    const at = ids.indexOf(status.id);
    const [before, after] = [ids.at(at - 1), ids[(at + 1) % ids.length]];
    const name = status.id.slice(0, 6);
    if (!status.joined) return [`${name} has not joined`];
    if (ids.length === 1) return [];
    const faults = [];
    if (status.predecessor?.id !== before) faults.push(`${name} has the wrong predecessor`);
    if (status.successors[0]?.id !== after) faults.push(`${name} has the wrong successor`);
    return faults;
  });
}

/** Waits until the nodes that run form one correct ring. */
export async function untilCorrect(cluster: Cluster, timeoutMs: number): Promise<NodeStatus[]> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const running = PLATFORMS.filter((platform) => cluster.isRunning(platform));
    const faults: string[] = [];
    const statuses: NodeStatus[] = [];
    for (const asked of await Promise.allSettled(running.map((platform) => cluster.statusOf(platform)))) {
      if (asked.status === "fulfilled") statuses.push(asked.value);
      else faults.push(asked.reason instanceof Error ? asked.reason.message : String(asked.reason));
    }
    if (faults.length === 0) faults.push(...faultsOf(statuses));
    if (faults.length === 0) return statuses;
    if (Date.now() > deadline)
      throw new Error(`the ring is not correct after ${timeoutMs / 1000} s: ${faults.join(", ")}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** Waits until each node that runs serves all that is its own: one that has just started is a member before that. */
export async function untilServing(cluster: Cluster, timeoutMs: number): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const missing: string[] = [];
    for (const platform of PLATFORMS.filter((platform) => cluster.isRunning(platform))) {
      const wanted = Object.keys(SERVICES).filter((name) => SERVICES[name]?.includes(platform));
      const served = await cluster.statusOf(platform).then(
        ({ services }) => services.map(({ name }) => name),
        (): string[] => [],
      );
      missing.push(
        ...wanted.filter((name) => !served.includes(name)).map((name) => `${name} on ${platform}`),
      );
    }
    if (missing.length === 0) return;
    if (Date.now() > deadline)
      throw new Error(`not served after ${timeoutMs / 1000} s: ${missing.join(", ")}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
