import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { basename, join as joinPath } from "node:path";
import process from "node:process";
import { Miniflare } from "miniflare";
import type { Browser } from "playwright-core";
import { CapsuleModule, capsuleModule, fromBase32 } from "selfsame/capsule";
import { bundleWorker } from "selfsame-twiitr/build";
import { Child } from "selfsame-twiitr/child";
import { localWorker } from "selfsame-twiitr/local-worker";
import { freePort } from "selfsame-twiitr/ports";

import type { MemberSettings } from "../replicas/member.ts";
import { servePage } from "./files.ts";
import { DENO, ROOT } from "./run.ts";

/** A replica that runs in one of the runtimes. */
export interface Running {
  /** Its node's peer id. */
  readonly id: string;
  /** The key that it signs with. */
  readonly key: string;
  /** Where it answers over HTTP, if it does. */
  readonly url: string | undefined;
  /** Lets it compare each capsule with others. */
  round(): Promise<void>;
  /** Ends it as a crash does. */
  kill(): Promise<void>;
  /** Ends it. */
  stop(): Promise<void>;
}

/** Where a replica is started. */
export interface Surroundings {
  readonly network: string;
  /** The address of a member, with its id. */
  readonly bootstrap: string;
  /** Folder of what it keeps and of its log. */
  readonly folder: string;
  /** Names of capsules that it is to hold. */
  readonly keep: readonly string[];
}

/** A secret seed of the one with this name. */
export const seedOf = (name: string): string => Buffer.from(name.padEnd(32, ".")).toString("hex");

/** Starts a program and waits until it has said where it is. */
export async function startProgram(
  name: string,
  command: string,
  args: readonly string[],
  folder: string,
): Promise<Child> {
  const child = Child.start({
    name,
    command,
    args: [...args],
    cwd: ROOT,
    env: process.env as Record<string, string>,
    log: joinPath(folder, `${name}.log`),
    isReady: ({ url }) => url !== undefined,
  });
  await child.ready;
  return child;
}

/** Starts a program of this folder in Node or in Deno. */
export function startScript(
  name: "node" | "deno",
  script: string,
  args: readonly string[],
  folder: string,
): Promise<Child> {
  const all = [joinPath(ROOT, "edge-tests", script), ...args];
  const flags = ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all", "--unstable-kv"];
  return name === "deno"
    ? startProgram(name, DENO, [...flags, ...all], folder)
    : startProgram(name, process.execPath, all, folder);
}

/** Starts a Worker of this folder, with its modules and a Durable Object `Node`, in a local workerd. */
export async function startWorkerd(
  entry: string,
  folder: string,
  settings: {
    readonly host?: string;
    readonly port?: number;
    readonly bindings?: Readonly<Record<string, string>>;
    /** Where its inspector answers; nowhere unless given. */
    readonly inspectorPort?: number;
    /** Folder in which Durable Objects are kept; in memory unless given. */
    readonly data?: string;
  } = {},
): Promise<Miniflare> {
  await bundleWorker(joinPath(ROOT, "edge-tests", entry), folder);
  const read = (name: string): Uint8Array<ArrayBuffer> =>
    new Uint8Array(readFileSync(joinPath(folder, name)));
  const wasm = ["core.wasm", "core-closed.wasm", "capsule.wasm", "rpc.wasm", "admission.wasm"].filter(
    (name) => existsSync(joinPath(folder, name)),
  );
  const worker = basename(entry).replace(/ts$/, "js");
  const { inspectorPort, ...rest } = settings;
  const miniflare = new Miniflare({
    ...localWorker({
      modules: {
        [worker]: readFileSync(joinPath(folder, worker), "utf8"),
        ...Object.fromEntries(wasm.map((name) => [name, read(name)])),
      },
      durableObjects: { NODE: "Node" },
      ...rest,
    }),
    ...(inspectorPort === undefined ? {} : { inspectorPort }),
  });
  await miniflare.ready;
  return miniflare;
}

function running(child: Child, round: (url: string) => Promise<void>): Running {
  const url = String(child.said("url"));
  return {
    id: String(child.said("id")),
    key: String(child.said("key")),
    url,
    round: () => round(url),
    kill: () => child.kill(),
    stop: () => child.stop(),
  };
}

async function post(url: string): Promise<void> {
  const response = await fetch(url, { method: "POST" });
  assert.equal(response.status, 200, url);
  await response.body?.cancel();
}

/** Starts a replica in Node, in SQLite, or in Deno, in Deno KV. */
export async function startMember(name: "node" | "deno", where: Surroundings): Promise<Running> {
  const { network, bootstrap, keep } = where;
  const folder = joinPath(where.folder, name);
  mkdirSync(folder, { recursive: true });
  const port = await freePort(name === "node" ? 8800 : 8820);
  const settings: MemberSettings = { network, folder, port, bootstrap, seed: seedOf(name), keep };
  const child = await startScript(name, "replicas/member.ts", [JSON.stringify(settings)], folder);
  return running(child, (url) => post(`${url}round`));
}

/** Starts a replica of the wasmtime host, in files of its own store. It compares nothing itself. */
export async function startHost(where: Surroundings): Promise<Running> {
  const folder = joinPath(where.folder, "wasmtime");
  const target = process.env.CARGO_TARGET_DIR ?? joinPath(ROOT, "target");
  const suffix = process.platform === "win32" ? ".exe" : "";
  const command = joinPath(target, "release/examples", `replica${suffix}`);
  const port = await freePort(8860);
  const child = await startProgram(
    "wasmtime",
    command,
    [folder, where.network, `${port}`, where.bootstrap],
    folder,
  );
  return running(child, async () => undefined);
}

/** Starts a replica in a Durable Object, in its SQLite; it survives `kill`, which ends the object alone. */
export async function startWorker(where: Surroundings): Promise<Running> {
  const folder = joinPath(where.folder, "worker");
  const port = await freePort(8840);
  const url = `http://127.0.0.1:${port}`;
  const { network, bootstrap, keep } = where;
  const bindings = {
    NETWORK: network,
    URL: url,
    BOOTSTRAP: bootstrap.replace("ws:", "http:"),
    SEED: seedOf("workerd"),
    KEEP: keep[0] ?? "",
  };
  const miniflare = await startWorkerd("replicas/worker.ts", folder, { port, bindings });
  const module = await CapsuleModule.instantiate(await capsuleModule());
  const key = Buffer.from(module.deriveKey(Buffer.from(seedOf("workerd"), "hex"))).toString("hex");
  const { id } = (await (await fetch(`${url}/status`)).json()) as { id: string };
  return {
    id,
    key,
    url: undefined,
    round: () => post(`${url}/round`),
    kill: () => post(`${url}/restart`),
    stop: () => miniflare.dispose(),
  };
}

/** Opens a page with a replica, in IndexedDB. */
export async function startPage(browser: Browser, where: Surroundings): Promise<Running> {
  const files = await servePage("replicas/page.ts");
  const page = await browser.newPage();
  const query = new URLSearchParams({ network: where.network, bootstrap: where.bootstrap });
  for (const capsule of where.keep) query.append("keep", capsule);
  const open = async (): Promise<void> => {
    await page.goto(`${files.url}?${query}`);
    await page.waitForFunction("document.title === 'ready'", undefined, { timeout: 60_000 });
  };
  await open();
  const { id, key } = (await page.evaluate("who")) as { id: string; key: string };
  return {
    id,
    key,
    url: undefined,
    round: () => page.evaluate("round()"),
    kill: open,
    stop: async () => {
      await page.close();
      files.close();
    },
  };
}

/** The fingerprint of all that a replica holds of a capsule, over which anti-entropy agrees. */
export async function fingerprintOf(
  capsule: string,
  post: (body: Uint8Array<ArrayBuffer>) => Promise<Response>,
): Promise<string> {
  const [version, compare, whole] = [1, 11, Buffer.alloc(24)];
  whole.fill(0xff, 16);
  const envelope = [Buffer.of(version), fromBase32(capsule, 32, "the name of a capsule"), Buffer.alloc(20)];
  const question = [Buffer.of(compare), Buffer.alloc(16), whole, Buffer.alloc(4 + 32)];
  const response = await post(new Uint8Array(Buffer.concat([...envelope, ...question])));
  const answer = Buffer.from(await response.arrayBuffer());
  const results = 1 + 2 + 4;
  assert.equal(answer.readUInt16LE(1), 0, "the request is understood");
  assert.equal(answer.readUInt16LE(results), 0, "the capsule is there");
  return answer.subarray(results + 2 + 8, results + 2 + 8 + 32).toString("hex");
}
