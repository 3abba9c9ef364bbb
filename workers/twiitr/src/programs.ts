import { mkdirSync } from "node:fs";
import { join } from "node:path";

import type { Program } from "./child.ts";
import type { Zone } from "./closed.ts";
import { ROOT } from "./folders.ts";
import { type AuditPlan, type Plan, type Platform, SERVICES } from "./plan.ts";
import { secretFile } from "./secret.ts";

/** What the build made. */
export type Built = {
  /** The command line of the host. */
  selfsame: string;
  /** The host's example that serves `check`. */
  appauth: string;
  /** Folder with the Worker's script and the core. */
  worker: string;
  /** Folder of the page. */
  page: string;
  deno: string;
};

/** How one node is started. */
export type Start = {
  built: Built;
  plan: Plan;
  bootstrap: string[];
  data: string;
  log: string;
  owner: string;
  grants: Record<string, string>;
  /** File of the secret that the replicas of `check` share. */
  ticketKey: string;
  /** The audit log that the node holds, once there is one. */
  audit: AuditPlan | undefined;
  /** Where the certificates of a closed network are. */
  zone: Zone | undefined;
  /** URL of whoever certifies the pages that the node serves. */
  certify: string | undefined;
};

/** Names of the main job that have an owner. */
const OWNED: string = Object.keys(SERVICES).join(" ");
/** Deno tries a new version of `check`, with a tenth of its requests. */
const VERSIONS = "check=2:0.1";

/** The program that runs a node on a platform. */
export function programOf(platform: Platform, start: Start): Program {
  mkdirSync(start.data, { recursive: true, mode: 0o700 });
  const { command, args, env } = PROGRAMS[platform](start);
  // The host tells of each step; the others say one thing, when they are reached.
  const isReady: Program["isReady"] = ({ event, url }) =>
    platform === "wasmtime" ? event === "joined" : typeof url === "string";
  return {
    name: platform,
    command,
    args,
    cwd: ROOT,
    env: { ...inherited(), ...env },
    log: start.log,
    isReady,
  };
}

type Command = { command: string; args: string[]; env: Record<string, string> };

const PROGRAMS: Record<Platform, (start: Start) => Command> = {
  wasmtime: ({ built, plan, bootstrap, data, owner, grants, ticketKey, audit, zone }) => ({
    command: built.appauth,
    args: [
      ...["--network", plan.network, "--listen", `ws://127.0.0.1:${plan.ports.wasmtime}`, "--data", data],
      // The Durable Object dials by HTTP, everybody else by WebSocket; both are accepted at the same port.
      ...["ws", "http"].flatMap((scheme) => [
        "--address",
        `${scheme}://127.0.0.1:${plan.ports.wasmtime}/.mesh`,
      ]),
      ...bootstrap.flatMap((address) => ["--join", address]),
      ...["--users", join(ROOT, "workers/apps/appauth/users.json"), "--allow-private", "--end-with-input"],
      ...["--rpc", "127.0.0.1:0", "--rpc-http", "127.0.0.1:0", "--ticket-key", ticketKey],
      ...(zone ? ["--dns", zone.domain, "--dns-over-https", zone.dnsOverHttps] : []),
      ...(owner ? ["--owner", owner] : []),
      ...Object.entries(grants).flatMap(([, grant]) => ["--grant", grant]),
      ...(audit ? ["--audit", audit.metadata, "--audit-seed", seedFile(data, audit.writers.wasmtime)] : []),
    ],
    env: {},
  }),
  deno: ({ built, data, ...start }) => ({
    command: built.deno,
    args: [
      ...[
        "run",
        "--quiet",
        "--no-prompt",
        "--cached-only",
        // A client of the RPC sends from any address.
        "--allow-net=127.0.0.1,0.0.0.0:0",
        "--allow-read",
        "--allow-env",
      ],
      ...[`--allow-write=${data}`, join(ROOT, "workers/deno/src/main.ts")],
    ],
    env: {
      ...settings(start),
      ...(start.audit ? { AUDIT_SEED_FILE: seedFile(data, start.audit.writers.deno) } : {}),
      TICKET_KEY_FILE: start.ticketKey,
      PORT: String(start.plan.ports.deno),
      DATA: denoStore(data),
      ...(start.certify ? { CERTIFY: start.certify } : {}),
      PAGE: built.page,
      VERSIONS,
      END_WITH_INPUT: "1",
    },
  }),
  workerd: ({ built, data, ...start }) => {
    const port = String(start.plan.ports.workerd);
    const secret = start.audit ? { AUDIT_SEED: start.audit.writers.workerd } : {};
    const bindings = { ...settings(start), ...secret, URL: `http://127.0.0.1:${port}`, RPC: "1" };
    const script = join(ROOT, "workers/twiitr/src/workerd.ts");
    const file = secretFile(join(data, "bindings.json"), JSON.stringify(bindings));
    const args = [script, built.worker, data, port, file];
    return { command: process.execPath, args, env: {} };
  },
};

/** The store of the node on Deno, which also keeps its identity. */
export function denoStore(data: string): string {
  return join(data, "node.sqlite");
}

function seedFile(data: string, seed: string): string {
  return secretFile(join(data, "audit.seed"), `${seed}\n`);
}

function settings({
  plan,
  bootstrap,
  owner,
  grants,
  audit,
  zone,
}: Omit<Start, "built" | "data">): Record<string, string> {
  const pairs = Object.entries(grants).map(([name, grant]) => `${name}=${grant}`);
  return {
    NETWORK: plan.network,
    BOOTSTRAP: bootstrap.join(" "),
    OWNER: owner,
    OWNED,
    GRANTS: pairs.join(" "),
    GATEWAY: "*",
    ALLOW_PRIVATE: "1",
    ...(audit ? { AUDIT: audit.metadata } : {}),
    ...(zone ? { DNS: zone.domain, DNS_OVER_HTTPS: zone.dnsOverHttps } : {}),
  };
}

/** Programs get what they need of the environment and no secret that is in it by chance. */
function inherited(): Record<string, string> {
  const names = [
    "PATH",
    "HOME",
    "TMPDIR",
    "TEMP",
    "SystemRoot",
    "LANG",
    "DENO_DIR",
    "XDG_CACHE_HOME",
    "RUST_LOG",
  ];
  return Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));
}
