import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

import { freePort } from "./ports.ts";

/** The platforms of the ring. */
export const PLATFORMS = ["wasmtime", "deno", "workerd"] as const;

/** One of them. */
export type Platform = (typeof PLATFORMS)[number];

/** What is kept from one start to the next: where each node listens and who it is. */
export type Plan = {
  network: string;
  ports: Record<Platform, number>;
  /** Peer ids, once each node has made its identity. */
  ids: Partial<Record<Platform, string>>;
};

/** The audit log of the main job: its capsule, and the secrets of those who write and read it. */
export type AuditPlan = {
  /** The capsule's name in base32. */
  capsule: string;
  /** Its signed metadata in hexadecimal. */
  metadata: string;
  /** Secret seed of the owner, who says who writes and reads. */
  owner: string;
  /** Secret seed of each platform's writer. */
  writers: Record<Platform, string>;
  /** Secret seed of whoever opens the page with the link that is printed. */
  reader: string;
};

/** Who serves what: each name of AppAuth is on two platforms, so that one may fail. What is audited every runtime holds. */
export const SERVICES: Readonly<Record<string, readonly Platform[]>> = {
  handler: ["workerd", "deno"],
  check: ["wasmtime", "deno"],
  observability: ["deno"],
  audit: ["wasmtime", "deno", "workerd"],
};

const WANTED_PORTS: Record<Platform, number> = { workerd: 8787, deno: 8788, wasmtime: 8789 };

/** The plan of the last start, or a new one; ports that others have taken since are replaced. */
export async function loadPlan(file: string, network: string): Promise<Plan> {
  const kept = existsSync(file) ? readPlan(file) : undefined;
  const ports = await choosePorts(kept?.ports ?? WANTED_PORTS);
  const plan = { network, ports, ids: kept === undefined ? {} : idsThatStay(kept, network, ports) };
  savePlan(file, plan);
  return plan;
}

/** Writes the plan as a whole: a reader never sees half of it. */
export function savePlan(file: string, plan: Plan): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  writeFileSync(`${file}.new`, `${JSON.stringify(plan, undefined, 2)}\n`);
  renameSync(`${file}.new`, file);
}

/** The ids that nodes still have: in a closed network they follow from the addresses. */
function idsThatStay(kept: Plan, network: string, ports: Plan["ports"]): Plan["ids"] {
  if (!network.includes("@")) return kept.ids;
  const stay = PLATFORMS.filter((platform) => kept.ports[platform] === ports[platform]);
  return Object.fromEntries(stay.flatMap((platform) => [[platform, kept.ids[platform]]]));
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
    if (plan.ports && plan.ids) return plan;
  } catch {
    // Told below with the remedy.
  }
  throw new Error(`${file} is damaged: remove the folder ${dirname(file)} to begin with a new ring`);
}
