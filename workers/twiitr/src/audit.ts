import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { join as joinMesh, type Mesh, memory, sqlite } from "selfsame";
import { type Capsule, CapsuleModule, capsuleModule, openCapsule, toBase32 } from "selfsame/capsule";
import { toHex } from "selfsame/codec";

import type { Cluster, Verified } from "./cluster.ts";
import { loginStatus } from "./login.ts";
import { type AuditPlan, PLATFORMS, type Plan, type Platform, SERVICES } from "./plan.ts";

/** Where the plan is kept. */
const AUDIT_FILE = "audit.json";
/** Until the replicas are found, or every runtime has verified the log. */
const TIMEOUT_MS = 20_000;
/** Between two looks. */
const LOOK_MS = 100;
/** Who lets logins in, and so writes them. */
const ENTRANCES: readonly Platform[] = ["workerd", "deno"];

/** The audit log of the last start, or a new one. */
export async function loadAudit({ network }: Plan, folder: string): Promise<AuditPlan> {
  const file = join(folder, AUDIT_FILE);
  if (existsSync(file)) return JSON.parse(readFileSync(file, "utf8")) as AuditPlan;
  const tools = await CapsuleModule.instantiate(await capsuleModule());
  const newSeed = (): string => randomBytes(32).toString("hex");
  const keyOf = (seed: string): string => toHex(tools.deriveKey(hex(seed)));
  const [owner, reader] = [newSeed(), newSeed()];
  const writers = { workerd: newSeed(), deno: newSeed(), wasmtime: newSeed() };
  const named = PLATFORMS.map((platform, index) => `${index + 1} ${platform}`).join(", ");
  const metadata = tools.signMetadata({
    seed: owner,
    description: `Sign-ins of ${network}, written by ${named}`,
    writers: PLATFORMS.map((platform) => keyOf(writers[platform])),
    sealed: true,
  });
  const capsule = toBase32(tools.verifyMetadata(metadata).name);
  const plan: AuditPlan = { capsule, metadata: toHex(metadata), owner, writers, reader };
  writeFileSync(file, `${JSON.stringify(plan, undefined, 2)}\n`, { mode: 0o600 });
  return plan;
}

/** Begins an epoch of the log as its owner, with its key for those who write and read it. */
export function grantAudit(cluster: Cluster, plan: AuditPlan): Promise<void> {
  return asOwner(cluster, plan, async (_, capsule) => {
    const tools = await CapsuleModule.instantiate(await capsuleModule());
    const seeds = [...Object.values(plan.writers), plan.reader];
    const { epochRecords } = await capsule.describe();
    await capsule.govern({
      readers: seeds.map((seed) => tools.deriveReader(hex(seed))),
      newEpoch: epochRecords > 0,
    });
    await merge(capsule, "the main job has started");
  });
}

/**
 * Lets every entrance write a login and merges the branches that come of it; resolves with what each runtime has verified then.
 */
export function verifyAudit(cluster: Cluster, plan: AuditPlan): Promise<Verified[]> {
  return asOwner(cluster, plan, async (mesh, capsule) => {
    await Promise.all(ENTRANCES.map((platform) => loginStatus(cluster.urlOf(platform), "ada", "wrong")));
    const written = ENTRANCES.map((platform) => PLATFORMS.indexOf(platform) + 1);
    let verified: Verified[] = [];
    const untilAll = (isDone: (one: Verified) => boolean): Promise<void> =>
      untilTrue(`the audit log is not verified everywhere: see the logs in ${cluster.folder}`, async () => {
        verified = await verifiedBy(cluster, mesh);
        return verified.every(isDone);
      });
    await untilAll(({ writers }) => written.every((writer) => (writers[writer] ?? 0) > 0));
    const merged = await merge(capsule, "every runtime has verified the first logins");
    await untilAll(({ heads }) => heads.includes(merged));
    return verified;
  });
}

/** Does something as the owner of the log: a leaf of the ring while it lasts. */
async function asOwner<T>(
  cluster: Cluster,
  plan: AuditPlan,
  work: (mesh: Mesh, capsule: Capsule) => Promise<T>,
): Promise<T> {
  const { owner } = cluster;
  const leaf = await cluster.closed?.leaf("audit-owner");
  const mesh = await joinMesh({
    network: cluster.plan.network,
    bootstrap: cluster.bootstrapOf("wasmtime", "ws"),
    storage: memory(),
    ...leaf,
    owner: owner === undefined ? undefined : { audit: owner },
    allowPrivate: true,
    domain: "owner",
  });
  try {
    await untilTrue("the replicas of the audit log are not found", () => areFound(mesh, plan.capsule));
    const storage = sqlite(join(cluster.folder, "audit.sqlite"));
    const capsule = await openCapsule({ mesh, metadata: hex(plan.metadata), seed: plan.owner, storage });
    try {
      return await work(mesh, capsule);
    } finally {
      await capsule.close();
    }
  } finally {
    await mesh.close();
  }
}

/** Writes a record that merges all branches. */
async function merge(capsule: Capsule, event: string): Promise<string> {
  const { after } = await capsule.begin();
  const { heads } = await capsule.heads();
  const others = heads.map(({ name }) => name).filter((name) => name !== after);
  const content = new TextEncoder().encode(JSON.stringify({ time_ms: Date.now(), event }));
  const [name = ""] = await capsule.append([content], { merge: others });
  return name;
}

async function areFound(mesh: Mesh, capsule: string): Promise<boolean> {
  return (await mesh.find(capsule, { unowned: true })).length === PLATFORMS.length;
}

/** What each runtime that serves `audit` has verified. */
async function verifiedBy({ plan }: Cluster, mesh: Mesh): Promise<Verified[]> {
  const asked = (SERVICES.audit ?? []).map(async (platform) => {
    const response = await mesh.fetch("https://audit.mesh/", { peer: plan.ids[platform] });
    if (!response.ok)
      throw new Error(`audit on ${platform} answers ${response.status}: ${await response.text()}`);
    return (await response.json()) as Verified;
  });
  return Promise.all(asked);
}

/** Looks until it is so; what goes wrong meanwhile may go right the next time. */
async function untilTrue(problem: string, look: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + TIMEOUT_MS;
  for (;;) {
    let why = "";
    const isTrue = await look().catch((error: unknown) => {
      why = error instanceof Error ? `: ${error.message}` : "";
      return false;
    });
    if (isTrue) return;
    if (Date.now() > deadline) throw new Error(`${problem}${why}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

function hex(digits: string): Uint8Array {
  return new Uint8Array(Buffer.from(digits, "hex"));
}
