/** Plays each attack against a live member of each host, while an honest client calls it and others join through it. */
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join as joinPath } from "node:path";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { join, memory, type NodeMesh } from "selfsame/node";
import { Child } from "selfsame-twiitr/child";

import { DATA } from "../lib/cluster.ts";
import { DENO, ROOT } from "../lib/run.ts";
import { built } from "../lib/sidecar.ts";
import { ATTACKS, type Attack } from "./attacks.ts";
import { type Flooded, PORTS } from "./ports.ts";

const NETWORK = "floods";
const UNOWNED = { unowned: true } as const;
const HOSTS = ["rust", "node", "deno"] as const;
type Host = (typeof HOSTS)[number];
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

/** A member that runs. */
interface Member {
  readonly ip: string;
  readonly bootstrap: string;
  readonly child: Child;
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
async function start(host: Host, index: number, echo: number): Promise<Member> {
  const ip = `5.6.${index}.1`;
  const flooded: Flooded = { network: NETWORK, name: host, ip, bootstrap: "" };
  const url = `ws://${ip}:${PORTS.ws}`;
  const log = joinPath(folder, `${host}.log`);
  const common = { name: host, cwd: ROOT, env: process.env as Record<string, string>, log };
  const child =
    host === "rust"
      ? Child.start({
          ...common,
          command: built("selfsame"),
          args: [
            ...["node", "--network", NETWORK, "--unowned", "--json", "--data", joinPath(folder, host)],
            ...[
              "--listen",
              url,
              "--listen",
              `tcp://${ip}:${PORTS.tcp}`,
              "--listen",
              `udp://${ip}:${PORTS.udp}`,
            ],
            ...["--serve", `${host}=http://127.0.0.1:${echo}`, "--end-with-input"],
          ],
          isReady: ({ event }) => event === "serving",
        })
      : Child.start({
          ...common,
          command: host === "deno" ? DENO : process.execPath,
          args: [
            ...(host === "deno" ? ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all"] : []),
            ...[joinPath(import.meta.dirname, "member.ts"), JSON.stringify(flooded)],
          ],
          isReady: ({ url: at }) => at !== undefined,
        });
  await child.ready;
  return { ip, bootstrap: `${url}#${String(child.said("id"))}`, child };
}

function memoryOf({ child }: Member): number {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) * 1024;
}

function leaf({ bootstrap }: Member): Promise<NodeMesh> {
  return join({ network: NETWORK, bootstrap, storage: memory(), joinTimeoutMs: JOIN_LIMIT_MS });
}

/** Plays an attack, and what honest peers do meanwhile. */
async function play(host: Host, member: Member, attack: Attack, seconds: number): Promise<Outcome> {
  const outcome: Outcome = { calls_ms: [], joins_ms: [], failures: [], grown: 0 };
  const before = memoryOf(member);
  const client = await leaf(member);
  const stop = new AbortController();
  const attacking = attack(member.ip, stop.signal);
  const timed = async (times: number[], what: string, act: () => Promise<void>): Promise<void> => {
    const begun = performance.now();
    await act().catch((error: unknown) => outcome.failures.push(`${what}: ${error}`));
    times.push(performance.now() - begun);
  };
  const call = async (): Promise<void> => {
    const response = await client.fetch(`https://${host}.mesh/`, {
      method: "POST",
      body: "hello",
      ...UNOWNED,
    });
    const text = await response.text();
    if (text !== "hello") throw new Error(`the answer is ${response.status} ${text}`);
  };
  const until = performance.now() + seconds * 1000;
  const repeat = async (pause_ms: number, act: () => Promise<void>): Promise<void> => {
    while (performance.now() < until) {
      await act();
      outcome.grown = Math.max(outcome.grown, memoryOf(member) - before);
      await delay(pause_ms);
    }
  };
  await Promise.all([
    repeat(CALL_MS, () => timed(outcome.calls_ms, "a call", call)),
    repeat(JOIN_MS, () =>
      timed(outcome.joins_ms, "a join", async () => {
        const newcomer = await leaf(member);
        await newcomer.close();
      }),
    ),
  ]);
  stop.abort();
  await attacking;
  await client.close();
  return outcome;
}

function problemsOf({ calls_ms, joins_ms, failures, grown }: Outcome, member: Member): string[] {
  const sorted = calls_ms.toSorted((one, other) => one - other);
  const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? Number.POSITIVE_INFINITY;
  const problems = failures.length > 0 ? [`${failures.length} failures, such as ${failures[0]}`] : [];
  if (p99 > CALL_LIMIT_MS) problems.push(`99 of 100 calls took up to ${Math.round(p99)} ms`);
  if (!joins_ms.every((time) => time < JOIN_LIMIT_MS)) problems.push("a join took too long");
  if (grown > MEMORY_LIMIT) problems.push(`it took ${Math.round(grown / 1e6)} MB more`);
  if (!member.child.isRunning) problems.push("it has ended");
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
  const member = await start(host, index, (echo.address() as AddressInfo).port);
  for (const [what, attack] of Object.entries(ATTACKS)) {
    process.stdout.write(`${host}, ${what} ... `);
    const outcome = await play(host, member, attack, seconds);
    const problems = problemsOf(outcome, member);
    if (problems.length === 0) passed++;
    else failed++;
    process.stdout.write(
      `${problems.length === 0 ? "ok" : "FAILED"}: ${[...problems, summary(outcome)].join("; ")}\n`,
    );
    if (!member.child.isRunning) break;
  }
  await member.child.stop();
}
echo.close();
process.stdout.write(`${passed} passed, ${failed} failed\n`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
