import type { ClosedNetwork } from "./closed.ts";
import type { Cluster, Verified } from "./cluster.ts";
import { loginStatus } from "./login.ts";
import { makeDeployment } from "./owner.ts";
import { PLATFORMS, SERVICES } from "./plan.ts";
import type { Built } from "./programs.ts";
import { untilCorrect } from "./ring.ts";

/** A ring of three settles within a second or two; a busy machine may take longer. */
const RING_TIMEOUT_MS = 30_000;
/** Until a first login is answered. */
const SERVICE_TIMEOUT_MS = 20_000;

/** Starts the nodes, joins them into one ring and deploys AppAuth on it; resolves with what each runtime has verified of its log. */
export async function startRing(
  cluster: Cluster,
  built: Built,
  say: (what: string) => void,
): Promise<Verified[]> {
  // The package that this is built on may have been built only now.
  const { grantAudit, loadAudit, verifyAudit } = await import("./audit.ts");
  if (cluster.closed !== undefined) {
    say(`certifying the nodes of the closed network ${cluster.plan.network}`);
    await certifyNodes(cluster, cluster.closed);
  }
  const strangers = PLATFORMS.filter((platform) => cluster.plan.ids[platform] === undefined);
  if (strangers.length > 0) {
    say(`making identities for ${strangers.join(", ")}`);
    await Promise.all(
      strangers.map(async (platform) => {
        await cluster.start(platform);
        await cluster.stop(platform);
      }),
    );
  }
  say("granting the names to those who serve them");
  const audit = await loadAudit(cluster.plan, cluster.folder);
  cluster.deploy({ ...(await makeDeployment(built.selfsame, cluster.plan, cluster.folder)), audit });
  say("starting wasmtime, which begins the ring");
  await cluster.start("wasmtime");
  say("starting Deno and workerd, which join it");
  await Promise.all([cluster.start("deno"), cluster.start("workerd")]);
  say("waiting until every node knows its neighbours");
  await untilCorrect(cluster, RING_TIMEOUT_MS);
  say("beginning the audit log, a capsule with a replica in each runtime");
  await grantAudit(cluster, audit);
  const names = Object.entries(SERVICES).map(([name, platforms]) => `${name} on ${platforms.join(" and ")}`);
  say(`AppAuth is deployed: ${names.join(", ")}`);
  await untilAnswered(cluster);
  say("a first login went through");
  const verified = await verifyAudit(cluster, audit);
  say(
    `the audit log was written and verified by ${verified.map(({ verifiedBy }) => verifiedBy).join(" and ")}`,
  );
  return verified;
}

/** Has each node find its certificate in the DNS, and the pages that Deno serves get theirs. */
async function certifyNodes(cluster: Cluster, closed: ClosedNetwork): Promise<void> {
  const { keyOf } = await import("./node-keys.ts");
  await closed.admitPages(cluster.urlOf("deno"));
  for (const platform of PLATFORMS) {
    const key = await keyOf(platform, cluster.startOf(platform));
    await closed.certify(key, new URL(cluster.urlOf(platform)).host);
  }
}

async function untilAnswered(cluster: Cluster): Promise<void> {
  const deadline = Date.now() + SERVICE_TIMEOUT_MS;
  for (;;) {
    const status = await loginStatus(cluster.urlOf("workerd"), "ada", "wrong").catch(() => 0);
    if (status === 401) return;
    if (Date.now() > deadline)
      throw new Error(`a login is answered with ${status || "nothing"}: see ${cluster.logOf("workerd")}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
