/**
 * One ring of all five runtimes: workerd, Deno, the wasmtime host and Node are members, a page in Chromium is a leaf.
 * Everybody calls everybody's service.
 */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import { join, memory, type NodeMesh } from "selfsame/node";
import { PLATFORMS } from "selfsame-twiitr/plan";
import { freePort } from "selfsame-twiitr/ports";
import { faultsOf } from "selfsame-twiitr/ring";
import type { NodeStatus } from "selfsame-twiitr/status";

import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { PASSWORD, startCluster, type TestCluster, within } from "../lib/cluster.ts";
import { run } from "../lib/run.ts";

/** More than a window of a stream, so that credit has to come back. */
const LARGE_BODY = 1024 * 1024;
const LOGIN = JSON.stringify({ user: "ada", password: PASSWORD });

const browser: Browser | undefined = await launchChromium();
const skip = browser === undefined ? HOW_TO_GET_A_BROWSER : false;
let test: TestCluster;
let node: NodeMesh;
let page: Page;
let owner: string;

before(async () => {
  if (browser === undefined) return;
  test = await startCluster("five");
  const { cluster } = test;
  owner = cluster.owner ?? assert.fail("nothing is deployed");
  const port = await freePort(8500);
  const address = `ws://127.0.0.1:${port}/.mesh`;
  node = await join({
    network: cluster.plan.network,
    address: [address, address.replace("ws", "http")],
    listen: { port, hostname: "127.0.0.1" },
    bootstrap: cluster.bootstrapOf("deno", "ws"),
    owner: { handler: owner, check: owner },
    storage: memory(),
    allowPrivate: true,
    domain: "node",
  });
  await node.serve("from-node", async (request) => new Response(request.body), { unowned: true });
  page = await browser.newPage();
  await page.goto(`${cluster.urlOf("deno")}/`);
  await page.locator('#state[data-state="joined"]').waitFor({ timeout: 20_000 });
  await page.locator("#serve-button").click();
  await page.locator("#serve-button", { hasText: "Stop" }).waitFor();
});

after(async () => {
  await browser?.close();
  await node?.close();
  await test?.stop();
});

const idOf = (platform: (typeof PLATFORMS)[number]): string => test.cluster.plan.ids[platform] ?? "";

describe("a ring of all five runtimes", { skip }, () => {
  it("has four members that agree who is next, and a leaf", async () => {
    await within(20_000, async () => {
      const statuses: NodeStatus[] = [await node.status()];
      for (const platform of PLATFORMS) statuses.push(await test.cluster.statusOf(platform));
      assert.deepEqual(faultsOf(statuses), []);
    });
    await within(10_000, async () => assert.equal(await page.locator("#ring .node.member").count(), 4));
  });

  it("lets Node call each of the others", async () => {
    for (const platform of ["wasmtime", "deno"] as const) {
      const headers = { "content-type": "application/json" };
      const init = { method: "POST", body: LOGIN, headers, peer: idOf(platform) };
      const response = await node.fetch("https://check.mesh/", init);
      assert.equal(response.status, 200, platform);
      assert.equal(response.headers.get("served-by"), platform);
    }
    for (const platform of ["workerd", "deno"] as const) {
      const response = await node.fetch("https://handler.mesh/login", { peer: idOf(platform) });
      assert.equal(response.headers.get("served-by"), platform);
    }
    const response = await node.fetch("https://hello-page.mesh/", { unowned: true });
    assert.equal(((await response.json()) as { caller: string }).caller, node.id);
  });

  for (const [platform, way] of [
    ["deno", "UDP"],
    ["workerd", "HTTP"],
  ] as const) {
    it(`lets the handler on ${platform} call check by RPC over ${way}, and its page says so`, async () => {
      const form = {
        method: "POST",
        body: new URLSearchParams(JSON.parse(LOGIN)),
        headers: { accept: "text/html" },
      };
      // The first calls may be late on a busy machine, and are made through the mesh then.
      await within(20_000, async () => {
        const response = await fetch(`${test.cluster.urlOf(platform)}/login`, form);
        assert.match(await response.text(), /checked by (?:wasmtime|deno), over encrypted RPC/);
        assert.equal(response.status, 200);
      });
    });
  }

  it("lets workerd and Deno call Node and the page, with large bodies both ways", async () => {
    for (const platform of ["workerd", "deno"] as const) {
      const gateway = `${test.cluster.urlOf(platform)}/mesh`;
      const body = randomBytes(LARGE_BODY);
      const response = await fetch(`${gateway}/from-node/`, { method: "POST", body });
      assert.equal(response.status, 200, platform);
      const hash = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
      assert.equal(hash(await response.bytes()), hash(body), platform);
      const answer = (await (await fetch(`${gateway}/hello-page/`)).json()) as { caller: string };
      assert.equal(answer.caller, idOf(platform));
    }
  });

  it("lets the wasmtime host call Node, the page and an owned name", async () => {
    const network = ["--network", test.cluster.plan.network, "--allow-private"];
    const joining = test.cluster.bootstrapOf("workerd", "ws").flatMap((address) => ["--join", address]);
    const call = (url: string, ...args: string[]): Promise<string> =>
      run(test.built.selfsame, ["call", url, ...network, ...joining, ...args]);
    assert.equal((await call("https://from-node.mesh/", "--unowned", "-d", "wasm")).trim(), "wasm");
    assert.match(await call("https://hello-page.mesh/", "--unowned"), /Hello from a web page/);
    const typed = ["-H", "content-type: application/json", "-d", LOGIN];
    assert.match(await call("https://check.mesh/", "--owner", owner, ...typed), /"user":\s*"ada"/);
  });

  it("lets the page call Node and both owned names", async () => {
    const call = async (name: string, path: string): Promise<string> => {
      await page.locator("#call-name").fill(name);
      await page.locator("#call-path").fill(path);
      await page.locator("#call-form button").click();
      await page.locator("#call-result[data-ok]").waitFor({ timeout: 15_000 });
      return (await page.locator("#call-result").textContent()) ?? "";
    };
    assert.match(await call("from-node", "/"), /^200 /);
    assert.match(await call("handler", "/login"), /^200 .*Sign in/s);
    assert.match(await call("check", "/"), /^405 /);
  });

  it("finds nobody for a name that is asked for as somebody else's", async () => {
    await assert.rejects(node.fetch("https://check.mesh/", { unowned: true }), {
      message: /nobody serves this name/,
    });
    await assert.rejects(node.fetch("https://from-node.mesh/", { owner: "11".repeat(32) }), /./);
  });
});
