import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join as joinPath } from "node:path";
import process from "node:process";
import { Miniflare } from "miniflare";
import type { Browser } from "playwright-core";
import { CapsuleModule, capsuleModule } from "selfsame/capsule";
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

const seedOf = (name: string): string => Buffer.from(name.padEnd(32, ".")).toString("hex");

/** Starts a program and waits until it has said where it is. */
async function program(name: string, command: string, args: string[], folder: string): Promise<Child> {
  const child = Child.start({
    name,
    command,
    args,
    cwd: ROOT,
    env: process.env as Record<string, string>,
    log: joinPath(folder, `${name}.log`),
    isReady: ({ url }) => url !== undefined,
  });
  await child.ready;
  return child;
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
  const args = [joinPath(ROOT, "edge-tests/replicas/member.ts"), JSON.stringify(settings)];
  const flags = ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all", "--unstable-kv"];
  const child =
    name === "deno"
      ? await program(name, DENO, [...flags, ...args], folder)
      : await program(name, process.execPath, args, folder);
  return running(child, (url) => post(`${url}round`));
}

/** Starts a replica of the wasmtime host, in redb. It compares nothing itself. */
export async function startHost(where: Surroundings): Promise<Running> {
  const folder = joinPath(where.folder, "wasmtime");
  const target = process.env.CARGO_TARGET_DIR ?? joinPath(ROOT, "target");
  const suffix = process.platform === "win32" ? ".exe" : "";
  const command = joinPath(target, "release/examples", `replica${suffix}`);
  const port = await freePort(8860);
  const child = await program(
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
  await bundleWorker(joinPath(ROOT, "edge-tests/replicas/worker.ts"), folder);
  const read = (name: string): Uint8Array<ArrayBuffer> =>
    new Uint8Array(readFileSync(joinPath(folder, name)));
  const port = await freePort(8840);
  const url = `http://127.0.0.1:${port}`;
  const { network, bootstrap, keep } = where;
  const miniflare = new Miniflare(
    localWorker({
      modules: {
        "worker.js": readFileSync(joinPath(folder, "worker.js"), "utf8"),
        "core.wasm": read("core.wasm"),
        "capsule.wasm": read("capsule.wasm"),
      },
      port,
      bindings: {
        NETWORK: network,
        URL: url,
        BOOTSTRAP: bootstrap.replace("ws:", "http:"),
        SEED: seedOf("workerd"),
        KEEP: keep[0] ?? "",
      },
      durableObjects: { NODE: "Node" },
    }),
  );
  await miniflare.ready;
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
