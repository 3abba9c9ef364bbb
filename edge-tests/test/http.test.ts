/**
 * HTTP through the mesh, by one file of cases: each caller makes each request to each service, and what arrives there and what comes
 * back is as HTTP and Fetch say, the same in every host. Callers are Node, Deno, a Worker, a program in Rust and one beside the
 * sidecar; services are in Node, Deno, a Worker, Rust, and a server behind the sidecar that knows of no mesh.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import type { Server } from "node:http";
import { join as joinPath } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import type { Miniflare } from "miniflare";
import { join, memory, type NodeMesh } from "selfsame/node";
import { buildAll } from "selfsame-twiitr/build";
import type { Child } from "selfsame-twiitr/child";
import { freePort } from "selfsame-twiitr/ports";
import { type Callee, type Caller, cases, casesOf, Player } from "../http/cases.ts";
import { startServer } from "../http/exposed.ts";
import { ARRIVED, type Arrived, type Order, type Outcome } from "../http/probe.ts";
import { performThrough } from "../http/raw.ts";
import { DATA } from "../lib/cluster.ts";
import { ROOT } from "../lib/run.ts";
import { startMember, startWorker } from "../lib/runtimes.ts";
import { built, type Sidecar, startSidecar } from "../lib/sidecar.ts";

const CALLERS: readonly Caller[] = ["node", "deno", "workerd", "rust", "proxy"];
const CALLEES: readonly Callee[] = ["node", "deno", "workerd", "rust", "exposed"];
const NETWORK = "programs";
const UNOWNED = { unowned: true } as const;
const folder = joinPath(DATA, "http");
/** More than the file needs, so that none of it is lost without notice. */
const LEAST_ASSERTIONS = 300;

let server: Server;
let sidecar: Sidecar;
let rust: ChildProcess;
let miniflare: Miniflare;
let observer: NodeMesh;
const members: Child[] = [];
const ids: Partial<Record<Caller, string>> = {};
const performers: Partial<Record<Caller, (order: Order) => Promise<Outcome>>> = {};

async function startIn(name: "node" | "deno"): Promise<void> {
  const settings = { network: NETWORK, name, port: await freePort(8660), bootstrap: sidecar.join };
  const member = await startMember("edge-tests/http/member.ts", settings, folder);
  members.push(member);
  ids[name] = String(member.said("id"));
  performers[name] = ask(String(member.said("url")));
}

/** Has a member make a request. */
function ask(url: string): (order: Order) => Promise<Outcome> {
  return async (order) => {
    const response = await fetch(url, { method: "POST", body: JSON.stringify(order) });
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as Outcome;
  };
}

async function startInWorkerd(): Promise<void> {
  const settings = { network: NETWORK, port: await freePort(8680), bootstrap: sidecar.join };
  const worker = await startWorker("edge-tests/http/worker.ts", settings, folder);
  miniflare = worker.miniflare;
  ids.workerd = worker.status.id;
  performers.workerd = ask(worker.url);
}

/** Starts the program in Rust, which makes one request after the other. */
async function startRust(): Promise<void> {
  rust = spawn(built("selfsame-http-probe"), [NETWORK, "rust", sidecar.join], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  assert(rust.stdin !== null && rust.stdout !== null);
  const { stdin, stdout } = rust;
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<unknown> => JSON.parse((await lines.next()).value as string);
  ids.rust = ((await next()) as { id: string }).id;
  performers.rust = async (order) => {
    stdin.write(`${JSON.stringify(order)}\n`);
    return (await next()) as Outcome;
  };
}

before(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await buildAll(() => undefined);
  const port = await freePort(8650);
  server = await startServer(port);
  const expose = `exposed=http://127.0.0.1:${port}`;
  sidecar = await startSidecar({ data: joinPath(folder, "host"), expose });
  ids.proxy = sidecar.id;
  performers.proxy = (order) => performThrough(sidecar.url, order);
  await startIn("node");
  await startIn("deno");
  await startInWorkerd();
  await startRust();
  observer = await join({ network: NETWORK, storage: memory(), bootstrap: sidecar.join, allowPrivate: true });
});

after(async () => {
  await observer?.close();
  await miniflare?.dispose();
  for (const member of members) await member.stop();
  if (rust !== undefined) {
    const ended = once(rust, "exit");
    rust.stdin?.end();
    await ended;
  }
  await sidecar?.stop();
  server?.close();
});

const player = new Player({
  perform: async (caller, order) => performers[caller]?.(order),
  idOf: (caller) => ids[caller],
  arrivedAt: async (callee, run) => {
    const response = await observer.fetch(`https://${callee}.mesh${ARRIVED}${run}`, UNOWNED);
    return (await response.json()) as Arrived | null;
  },
});

for (const callee of CALLEES) {
  for (const caller of CALLERS) {
    describe(`${caller} calls the service in ${callee}`, () => {
      for (const one of casesOf(caller, callee)) it(one.name, () => player.play(one, caller, callee));
    });
  }
}

it("plays the examples of the specification", () => {
  const page = readFileSync(joinPath(ROOT, "docs/specification/http.md"), "utf8");
  for (const { name } of cases) assert(page.includes(`\n- ${name}\n`), name);
});

it("makes all its assertions", () => {
  console.log(`${player.assertions} assertions`);
  assert(player.assertions >= LEAST_ASSERTIONS, `${player.assertions}`);
});
