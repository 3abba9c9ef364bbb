import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { storeContract } from "../src/stores/contract.ts";
import { freePort, freeUdpPort, leaf, member } from "./support.ts";

// The executable itself, so that a signal reaches it and not the script that starts it.
const installer = createRequire(import.meta.url)("deno/install_api.cjs") as { runInstall(): string };
const deno = installer.runInstall();
const here = (file: string): string => fileURLToPath(new URL(`deno/${file}`, import.meta.url));
const run = promisify(execFile);

function denoArguments(flags: string[], file: string, more: string[]): string[] {
  return ["run", "--no-lock", "--no-config", "--allow-all", ...flags, here(file), ...more];
}

describe("store contract in Deno", () => {
  for (const [store, flags] of [
    ["sqlite", []],
    ["kv", ["--unstable-kv"]],
  ] as const) {
    test(store, async (t) => {
      const { stdout } = await run(deno, denoArguments([...flags], "stores.ts", [store]));
      const results = JSON.parse(stdout) as { name: string; error: string }[];
      assert.equal(results.length, storeContract.length);
      for (const { name, error } of results) await t.test(name, () => assert.equal(error, ""));
    });
  }
});

describe("a replica of capsules in Deno", () => {
  for (const [store, flags] of [
    ["sqlite", []],
    ["kv", ["--unstable-kv"]],
  ] as const) {
    test(`answers like the one that is no WebAssembly, and keeps what it acknowledged: ${store}`, async () => {
      const { stdout } = await run(deno, denoArguments([...flags], "capsules.ts", [store]));
      assert.deepEqual(JSON.parse(stdout), { differing: [], kept: true });
    });
  }
});

describe("a node in Deno behind a proxy", () => {
  for (const [what, proxy, remote] of [
    ["counts a path by the address that the trusted proxy forwards", "127.0.0.0/8", "198.51.100.1"],
    ["ignores the header of an untrusted peer", "10.0.0.0/8", "127.0.0.1"],
  ] as const) {
    test(what, async () => {
      const { stdout } = await run(deno, denoArguments([], "forwarded.ts", [`${await freePort()}`, proxy]));
      assert.deepEqual(JSON.parse(stdout), [remote, remote]);
    });
  }
});

describe("a node in Deno, without any flag", () => {
  let folder: string;
  const children: ChildProcess[] = [];
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "selfsame-deno-"));
  });
  after(async () => {
    for (const child of children)
      if (child.exitCode === null && child.kill("SIGKILL")) await once(child, "exit");
    await rm(folder, { recursive: true });
  });

  async function start(
    port: number,
    tcp: string,
    udp: string,
    bootstrap: string,
  ): Promise<{ id: string; child: ChildProcess }> {
    const argv = denoArguments([], "node.ts", [`${port}`, tcp, udp, join(folder, "data"), bootstrap]);
    const child = spawn(deno, argv, { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    const [line] = (await once(lines, "line")) as [string];
    return { ...(JSON.parse(line) as { id: string }), child };
  }

  test("joins a node in Node over TCP, UDP and WebSocket, each calls the other, and it keeps its identity after kill -9", async () => {
    const node = await member({ scheme: "tcp" });
    await node.mesh.serve("node", async (request) => new Response(`node for ${await request.text()}`), {
      unowned: true,
    });
    const port = await freePort();
    const tcp = `tcp://127.0.0.1:${await freePort()}`;
    const udp = `udp://127.0.0.1:${await freeUdpPort()}`;
    const { id, child } = await start(port, tcp, udp, node.bootstrap);
    for (const way of [`${tcp}#${id}`, `${udp}#${id}`, `ws://127.0.0.1:${port}/.mesh#${id}`]) {
      const caller = await leaf(way);
      const response = await caller.fetch("https://deno.mesh/", { unowned: true });
      assert.equal(await response.text(), `deno, then node for ${caller.id}`, way);
      await caller.close();
    }
    assert.equal(await (await fetch(`http://127.0.0.1:${port}/`)).text(), "the app");
    child.kill("SIGKILL");
    await once(child, "exit");
    const again = await start(port, tcp, udp, node.bootstrap);
    assert.equal(again.id, id);
    await node.mesh.close();
  });
});
