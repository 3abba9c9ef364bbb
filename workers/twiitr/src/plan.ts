import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

import { freePort } from "./ports.ts";

/** The platforms of the ring. */
export const PLATFORMS = ["wasmtime", "deno", "workerd"] as const;

/** One of them. */
export type Platform = (typeof PLATFORMS)[number];

/** What is kept from one start to the next: where each node listens, who it is, and the owner of the names. */
export type Plan = {
  network: string;
  /** Secret seed of the owner of `handler` and `check`, made for this ring. */
  ownerSeed: string;
  ports: Record<Platform, number>;
  /** Peer ids, once each node has made its identity. */
  ids: Partial<Record<Platform, string>>;
};

/** Who serves what: each name is on two platforms, so that one may fail. */
export const SERVICES: Readonly<Record<string, readonly Platform[]>> = {
  handler: ["workerd", "deno"],
  check: ["wasmtime", "deno"],
};

const WANTED_PORTS: Record<Platform, number> = { workerd: 8787, deno: 8788, wasmtime: 8789 };

/** The plan of the last start, or a new one; ports that others have taken since are replaced. */
export async function loadPlan(file: string, network: string): Promise<Plan> {
  const kept = existsSync(file) ? readPlan(file) : undefined;
  const ports = await choosePorts(kept?.ports ?? WANTED_PORTS);
  const ownerSeed = kept?.ownerSeed ?? randomBytes(32).toString("hex");
  const plan = { network, ownerSeed, ports, ids: kept?.ids ?? {} };
  savePlan(file, plan);
  return plan;
}

/** Writes the plan; it holds a secret. */
export function savePlan(file: string, plan: Plan): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  writeFileSync(`${file}.new`, `${JSON.stringify(plan, undefined, 2)}\n`, { mode: 0o600 });
  chmodSync(`${file}.new`, 0o600);
  renameSync(`${file}.new`, file);
}

async function choosePorts(wanted: Record<Platform, number>): Promise<Record<Platform, number>> {
  const chosen: number[] = [];
  for (const platform of PLATFORMS) chosen.push(await freePort(wanted[platform], chosen));
  const [wasmtime = 0, deno = 0, workerd = 0] = chosen;
  return { wasmtime, deno, workerd };
}

function readPlan(file: string): Plan {
  try {
    const plan = JSON.parse(readFileSync(file, "utf8")) as Plan;
    if (/^[0-9a-f]{64}$/.test(plan.ownerSeed) && plan.ports && plan.ids) return plan;
  } catch {
    // Told below with the remedy.
  }
  throw new Error(`${file} is damaged: remove the folder ${dirname(file)} to begin with a new ring`);
}
