/** Plays each attack against a live member of each host, while an honest client calls it and others join through it. */
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join as joinPath } from "node:path";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { CapsuleModule, capsuleModule, openCapsule } from "selfsame/capsule";
import { join, memory } from "selfsame/node";
import { Child, type Program } from "selfsame-twiitr/child";

import { DATA } from "../lib/cluster.ts";
import { DENO, ROOT } from "../lib/run.ts";
import { built } from "../lib/sidecar.ts";
import { pidsOf } from "../soak/samples.ts";
import { ATTACKS, type Attack, ON_REPLICAS, ON_WORKERS } from "./attacks.ts";
import { type MemberSettings, PORTS } from "./ports.ts";

const NETWORK = "floods";
const HOSTS = ["rust", "node", "deno", "workerd", "replica"] as const;
type Host = (typeof HOSTS)[number];
/** Of hosts that all attacks do not reach: those that do. */
const OTHERS: Partial<Record<Host, Readonly<Record<string, Attack>>>> = {
  workerd: ON_WORKERS,
  replica: ON_REPLICAS,
};
/** How long one attack goes on unless the command says. */
const SECONDS = 15;
/** Pause between two calls of the honest client, and between two joins. */
const CALL_MS = 50;
const JOIN_MS = 1_000;
/** Longest time of 99 of 100 calls, and of a join. */
const CALL_LIMIT_MS = 2_000;
const JOIN_LIMIT_MS = 10_000;
/** Most memory that a member may take more under an attack: what its tables may hold, and the buffers of 5,000 sockets. */
const MEMORY_LIMIT = 256 * 1024 * 1024;

/** A member, or a replica of capsules, that runs. */
interface Flooded {
  readonly host: Host;
  readonly ip: string;
  readonly child: Child;
  /** Begins to be a client of it. */
  client(): Promise<Client>;
}

/** An honest peer. */
interface Client {
  /** Asks for something and checks the answer. */
  call(): Promise<void>;
  close(): Promise<void>;
}

/** What became of an attack. */
interface Outcome {
  calls_ms: number[];
  joins_ms: number[];
  failures: string[];
  grown: number;
}

const folder = joinPath(DATA, "floods");
const { values } = parseArgs({
  options: { host: { type: "string", multiple: true }, seconds: { type: "string" } },
});

/** Starts what is flooded, as a ring of its own. */
async function start(host: Host, index: number, echo: number): Promise<Flooded> {
  const ip = `5.6.${index}.1`;
  const program = programOf(host, ip, echo);
  const env = process.env as Record<string, string>;
  const child = Child.start({ name: host, cwd: ROOT, env, log: joinPath(folder, `${host}.log`), ...program });
  await child.ready;
  const url = host === "replica" ? String(child.said("url")) : `ws://${ip}:${PORTS.ws}`;
  if (host !== "replica") {
    const bootstrap = `${url}#${String(child.said("id"))}`;
    return { host, ip, child, client: () => leafOf(bootstrap, host) };
  }
  const capsule = await capsuleAt(url, String(child.said("key")));
  return { host, ip, child, client: capsule };
}

function programOf(host: Host, ip: string, echo: number): Pick<Program, "command" | "args" | "isReady"> {
  const data = joinPath(folder, host);
  if (host === "replica") {
    return {
      command: built("selfsame"),
      args: [
        "capsule",
        "serve",
        "--listen",
        `${ip}:${PORTS.ws}`,
        "--data",
        data,
        "--json",
        "--end-with-input",
      ],
      isReady: ({ event }) => event === "serving",
    };
  }
  if (host === "rust") {
    const listen = Object.entries(PORTS).flatMap(([scheme, port]) => [
      "--listen",
      `${scheme}://${ip}:${port}`,
    ]);
    return {
      command: built("selfsame"),
      args: [
        ...["node", "--network", NETWORK, "--unowned", "--json", "--end-with-input", "--data", data],
        ...[...listen, "--serve", `${host}=http://127.0.0.1:${echo}`],
      ],
      isReady: ({ event }) => event === "serving",
    };
  }
  const settings: MemberSettings = { network: NETWORK, name: host, ip, bootstrap: "" };
  const flags = ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all"];
  const script = joinPath(import.meta.dirname, host === "workerd" ? "workerd.ts" : "member.ts");
  return {
    command: host === "deno" ? DENO : process.execPath,
    args: [...(host === "deno" ? flags : []), script, JSON.stringify(settings), data],
    isReady: ({ url }) => url !== undefined,
  };
}

/** A leaf that joins through a member and calls it. */
async function leafOf(bootstrap: string, host: Host): Promise<Client> {
  const mesh = await join({ network: NETWORK, bootstrap, storage: memory(), joinTimeoutMs: JOIN_LIMIT_MS });
  return {
    close: () => mesh.close(),
    call: async () => {
      const init = { method: "POST", body: "hello", unowned: true };
      const response = await mesh.fetch(`https://${host}.mesh/`, init);
      const text = await response.text();
      if (text !== "hello") throw new Error(`the answer is ${response.status} ${text}`);
    },
  };
}

/** A capsule at a replica, and what opens it; its calls write a record each. */
async function capsuleAt(url: string, key: string): Promise<() => Promise<Client>> {
  const module = await CapsuleModule.instantiate(await capsuleModule());
  const seed = "11".repeat(32);
  const metadata = module.signMetadata({
    seed,
    description: "floods",
    writers: [],
  });
  const options = { metadata, servers: [{ key, url }], storage: memory() };
  const writer = await openCapsule({ ...options, seed });
  await writer.create();
  return async () => {
    const reader = await openCapsule({ ...options, storage: memory() });
    await reader.heads();
    return {
      close: () => reader.close(),
      call: async () => {
        await writer.append([new TextEncoder().encode("a record")]);
      },
    };
  };
}

function memoryOf({ host, child }: Flooded): number {
  const { pid = 0 } = child;
  const [own] = host === "workerd" ? pidsOf(pid, "workerd") : [pid];
  const status = readFileSync(`/proc/${own}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024;
}

/** Plays an attack, and what honest peers do meanwhile. */
async function play(flooded: Flooded, attack: Attack, seconds: number): Promise<Outcome> {
  const outcome: Outcome = { calls_ms: [], joins_ms: [], failures: [], grown: 0 };
  const before = memoryOf(flooded);
  const client = await flooded.client();
  const stop = new AbortController();
  const attacking = attack(flooded.ip, stop.signal);
  const timed = async (times: number[], what: string, act: () => Promise<void>): Promise<void> => {
    const begun = performance.now();
    await act().catch((error: unknown) => outcome.failures.push(`${what}: ${error}`));
    times.push(performance.now() - begun);
  };
  const until = performance.now() + seconds * 1000;
  const repeat = async (pause_ms: number, act: () => Promise<void>): Promise<void> => {
    while (performance.now() < until) {
      await act();
      outcome.grown = Math.max(outcome.grown, memoryOf(flooded) - before);
      await delay(pause_ms);
    }
  };
  await Promise.all([
    repeat(CALL_MS, () => timed(outcome.calls_ms, "a call", () => client.call())),
    repeat(JOIN_MS, () =>
      timed(outcome.joins_ms, "a join", async () => {
        const newcomer = await flooded.client();
        await newcomer.close();
      }),
    ),
  ]);
  stop.abort();
  await attacking;
  await client.close();
  return outcome;
}

function problemsOf({ calls_ms, joins_ms, failures, grown }: Outcome, { child }: Flooded): string[] {
  const sorted = calls_ms.toSorted((one, other) => one - other);
  const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? Number.POSITIVE_INFINITY;
  const problems = failures.length > 0 ? [`${failures.length} failures, such as ${failures[0]}`] : [];
  if (p99 > CALL_LIMIT_MS) problems.push(`99 of 100 calls took up to ${Math.round(p99)} ms`);
  if (!joins_ms.every((time) => time < JOIN_LIMIT_MS)) problems.push("a join took too long");
  if (grown > MEMORY_LIMIT) problems.push(`it took ${Math.round(grown / 1e6)} MB more`);
  if (!child.isRunning) problems.push("it has ended");
  return problems;
}

function summary({ calls_ms, joins_ms, grown }: Outcome): string {
  const at = (times: number[], share: number): string => {
    const sorted = times.toSorted((one, other) => one - other);
    return `${Math.round(sorted[Math.floor(sorted.length * share)] ?? 0)} ms`;
  };
  const calls = `${calls_ms.length} calls, half within ${at(calls_ms, 0.5)}, 99 % within ${at(calls_ms, 0.99)}`;
  return `${calls}; ${joins_ms.length} joins within ${at(joins_ms, 0.999)}; ${Math.round(grown / 1e6)} MB more`;
}

const seconds = Number(values.seconds ?? SECONDS);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const echo = createServer((request, response) => {
  request.pipe(response);
}).listen(0, "127.0.0.1");
await once(echo, "listening");
let [passed, failed] = [0, 0];
for (const [index, host] of HOSTS.entries()) {
  if (values.host !== undefined && !values.host.includes(host)) continue;
  const flooded = await start(host, index, (echo.address() as AddressInfo).port);
  for (const [what, attack] of Object.entries(OTHERS[host] ?? ATTACKS)) {
    process.stdout.write(`${host}, ${what} ... `);
    const outcome = await play(flooded, attack, seconds);
    const problems = problemsOf(outcome, flooded);
    if (problems.length === 0) passed++;
    else failed++;
    process.stdout.write(
      `${problems.length === 0 ? "ok" : "FAILED"}: ${[...problems, summary(outcome)].join("; ")}\n`,
    );
    if (!flooded.child.isRunning) break;
  }
  await flooded.child.stop();
}
echo.close();
process.stdout.write(`${passed} passed, ${failed} failed\n`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
