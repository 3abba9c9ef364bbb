import type { Cluster } from "./cluster.ts";
import { PLATFORMS, type Platform, SERVICES } from "./plan.ts";
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

/** What a platform does not serve, or not yet, of what is its own. */
function missingFrom(platform: Platform, { services }: NodeStatus): string[] {
  const served = services.map(({ name }) => name);
  const wanted = Object.keys(SERVICES).filter((name) => SERVICES[name]?.includes(platform));
  return wanted.filter((name) => !served.includes(name)).map((name) => `${name} is not on ${platform}`);
}

/** Asks all nodes that run until nothing is wrong with what they answer. */
async function untilRight(
  cluster: Cluster,
  timeoutMs: number,
  subject: string,
  look: (statuses: ReadonlyMap<Platform, NodeStatus>) => string[],
): Promise<NodeStatus[]> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const running = PLATFORMS.filter((platform) => cluster.isRunning(platform));
    const faults: string[] = [];
    const statuses = new Map<Platform, NodeStatus>();
    const answers = await Promise.allSettled(running.map((platform) => cluster.statusOf(platform)));
    for (const [index, platform] of running.entries()) {
      const asked = answers[index];
      if (asked?.status === "fulfilled") statuses.set(platform, asked.value);
      else faults.push(asked?.reason instanceof Error ? asked.reason.message : String(asked?.reason));
    }
    if (faults.length === 0) faults.push(...look(statuses));
    if (faults.length === 0) return [...statuses.values()];
    if (Date.now() > deadline)
      throw new Error(`${subject} after ${timeoutMs / 1000} s: ${faults.join(", ")}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** Waits until the nodes that run form one correct ring. */
export function untilCorrect(cluster: Cluster, timeoutMs: number): Promise<NodeStatus[]> {
  return untilRight(cluster, timeoutMs, "the ring is not correct", (statuses) =>
    faultsOf([...statuses.values()]),
  );
}

/** Waits until each node that runs serves all that is its own: one that has just started is a member before that. */
export async function untilServing(cluster: Cluster, timeoutMs: number): Promise<void> {
  await untilRight(cluster, timeoutMs, "not all is served", (statuses) =>
    [...statuses].flatMap(([platform, status]) => missingFrom(platform, status)),
  );
}
