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

import { startServer } from "../http/exposed.ts";
import {
  ARRIVED,
  type Arrived,
  type Field,
  type Order,
  type Outcome,
  REPLY,
  type Reply,
  RUN,
} from "../http/probe.ts";
import { performThrough } from "../http/raw.ts";
import { DATA } from "../lib/cluster.ts";
import { ROOT } from "../lib/run.ts";
import { startMember, startWorker } from "../lib/runtimes.ts";
import { built, type Sidecar, startSidecar } from "../lib/sidecar.ts";

const CALLERS = ["node", "deno", "workerd", "rust", "proxy"] as const;
const CALLEES = ["node", "deno", "workerd", "rust", "exposed"] as const;
type Caller = (typeof CALLERS)[number];
type Callee = (typeof CALLEES)[number];

/** What headers are to be. */
interface Expected {
  headers?: Record<string, string>;
  without?: string[];
  cookies?: string[];
  body?: string;
}

/** A case of the file. */
interface Case {
  name: string;
  callers?: Caller[];
  callees?: Callee[];
  order: Order;
  reply?: Reply;
  arrives?: Expected & { method?: string; path?: string };
  comes?: Expected & { status: number };
  /** There is no answer, and these words say why. */
  refused?: string;
}

const NETWORK = "programs";
const UNOWNED = { unowned: true } as const;
const cases = JSON.parse(readFileSync(joinPath(import.meta.dirname, "../http/cases.json"), "utf8")) as Case[];
const folder = joinPath(DATA, "http");
/** More than the file needs, so that none of it is lost without notice. */
const LEAST_ASSERTIONS = 300;

let server: Server;
let sidecar: Sidecar;
let rust: ChildProcess;
let miniflare: Miniflare;
let observer: NodeMesh;
let assertions = 0;
let runs = 0;
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

/** JSON that may stand in a header. */
function inHeader(value: unknown): string {
  return JSON.stringify(value).replaceAll(/[^ -~]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

function check<T>(actual: T, expected: T, what: string): void {
  assertions += 1;
  assert.deepEqual(actual, expected, what);
}

/** Compares what is expected with a message. */
function compare(what: string, expected: Expected, headers: readonly Field[], body: string): void {
  const valuesOf = (wanted: string): string[] =>
    headers.filter(([name]) => name === wanted).map(([, value]) => value);
  for (const [name, value] of Object.entries(expected.headers ?? {})) {
    check(valuesOf(name), [value], `${what}: ${name}`);
  }
  for (const name of expected.without ?? []) check(valuesOf(name), [], `${what}: ${name}`);
  if (expected.cookies !== undefined) check(valuesOf("set-cookie"), expected.cookies, `${what}: cookies`);
  if (expected.body !== undefined) check(body, expected.body, `${what}: body`);
}

/** What arrived of a run at a service. */
async function arrivedAt(callee: Callee, run: string): Promise<Arrived | null> {
  const response = await observer.fetch(`https://${callee}.mesh${ARRIVED}${run}`, UNOWNED);
  return (await response.json()) as Arrived | null;
}

async function play({ order, reply, arrives, comes, refused }: Case, caller: Caller, callee: Callee) {
  const run = `${++runs}`;
  const renamed = (text: string): string =>
    text.replace("probe.mesh", `${callee}.mesh`).replace("PROBE.mesh", `${callee.toUpperCase()}.mesh`);
  const headers: Field[] = [
    ...order.headers.map(([name, value]): Field => [name, name === "host" ? renamed(value) : value]),
    [RUN, run],
    ...(reply === undefined ? [] : [[REPLY, inHeader(reply)] as const]),
  ];
  const outcome = await performers[caller]?.({ ...order, url: renamed(order.url), headers });
  assert(outcome !== undefined);
  if (refused !== undefined) {
    assert("error" in outcome, JSON.stringify(outcome));
    check(outcome.error.includes(refused), true, outcome.error);
    if (reply === undefined) check(await arrivedAt(callee, run), null, "nothing arrives");
    return;
  }
  assert(!("error" in outcome) && comes !== undefined, JSON.stringify(outcome));
  check(outcome.status, comes.status, "status");
  compare("answer", comes, outcome.headers, outcome.body);
  if (arrives === undefined) return;
  const arrived = await arrivedAt(callee, run);
  assert(arrived !== null);
  check(arrived.caller, ids[caller], "caller");
  if (arrives.method !== undefined) check(arrived.method, arrives.method, "method");
  if (arrives.path !== undefined) check(arrived.path, arrives.path, "path");
  compare("request", arrives, arrived.headers, arrived.body);
}

for (const callee of CALLEES) {
  for (const caller of CALLERS) {
    describe(`${caller} calls the service in ${callee}`, () => {
      for (const one of cases) {
        if (!(one.callers ?? CALLERS).includes(caller) || !(one.callees ?? CALLEES).includes(callee))
          continue;
        it(one.name, () => play(one, caller, callee));
      }
    });
  }
}

it("plays the examples of the specification", () => {
  const page = readFileSync(joinPath(ROOT, "docs/specification/http.md"), "utf8");
  for (const { name } of cases) assert(page.includes(`\n- ${name}\n`), name);
});

it("makes all its assertions", () => {
  console.log(`${assertions} assertions`);
  assert(assertions >= LEAST_ASSERTIONS, `${assertions}`);
});
