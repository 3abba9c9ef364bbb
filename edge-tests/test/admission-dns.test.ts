/**
 * The main job in a closed network, as `npm start -- --admission dns` runs it: all nodes and the page find their certificates in the DNS
 * that the job serves; who has none, or no invitation, stays out.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Browser, Page } from "playwright-core";
import { dns, nodeKey } from "selfsame/admission";
import type { MeshStatus } from "selfsame/node";
import { join, memory } from "selfsame/node";
import type { ClosedNetwork } from "selfsame-twiitr/closed";
import { PLATFORMS } from "selfsame-twiitr/plan";
import { pageUrl } from "selfsame-twiitr/print";

import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { PASSWORD, startCluster, type TestCluster, within } from "../lib/cluster.ts";
import { run } from "../lib/run.ts";

const NAME = "admission-dns";
const SEED = "5e".repeat(32);

const browser: Browser | undefined = await launchChromium();
const withPage = { skip: browser === undefined && HOW_TO_GET_A_BROWSER };
let test: TestCluster;

before(async () => {
  test = await startCluster(NAME, { admission: "dns" });
});

after(async () => {
  await browser?.close();
  await test?.stop();
});

const closed = (): ClosedNetwork => test.cluster.closed ?? assert.fail("the network is open");

/** Tells the job a key, as a page does. */
async function askFor(body: string): Promise<number> {
  const { url = "" } = closed().pages ?? {};
  return (await fetch(url, { method: "POST", body })).status;
}

/** Joins as a leaf with the identity of a stranger. */
async function joinAsStranger(): Promise<void> {
  const { network, zone } = closed();
  const bootstrap = test.cluster.bootstrapOf("wasmtime", "ws");
  const options = { network, bootstrap, storage: memory(), seed: SEED, allowPrivate: true };
  const mesh = await join({ ...options, admission: dns(zone), log: () => undefined });
  await mesh.close();
}

async function open(browser: Browser, url: string, state: string): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  await page.goto(url);
  await page.locator(`#state[data-state="${state}"]`).waitFor({ timeout: 20_000 });
  return page;
}

describe("the main job with --admission dns", () => {
  it("has nodes with certificates of its authority, which let a user sign in", async () => {
    const [name, authority] = closed().network.split("@");
    assert.equal(name, NAME);
    for (const platform of PLATFORMS) {
      const status = (await test.cluster.statusOf(platform)) as unknown as MeshStatus;
      assert.equal(status.membership?.authority, authority, platform);
    }
    const body = JSON.stringify({ user: "ada", password: PASSWORD });
    const headers = { "content-type": "application/json" };
    for (const platform of ["workerd", "deno"] as const) {
      const response = await fetch(`${test.cluster.urlOf(platform)}/login`, {
        method: "POST",
        body,
        headers,
      });
      assert.equal(response.status, 200, platform);
    }
  });

  it("admits the page of the link that it prints, which says so and serves", withPage, async () => {
    const page = await open(browser ?? assert.fail(), pageUrl(test.cluster), "joined");
    const [, authority = ""] = closed().network.split("@");
    await within(10_000, async () => {
      const text = (await page.locator("#admission").textContent()) ?? "";
      assert.match(
        text,
        new RegExp(`^Closed: certificates of ${authority.slice(0, 16)}\\. This page's is .* old`),
      );
    });
    await page.locator("#serve-button").click();
    await page.locator("#serve-button", { hasText: "Stop" }).waitFor();
    await within(20_000, async () => {
      const response = await fetch(`${test.cluster.urlOf("workerd")}/mesh/hello-page/`);
      assert.match(await response.text(), /Hello from a web page/);
    });
  });

  it("admits no page without the invitation", withPage, async () => {
    const page = await open(browser ?? assert.fail(), test.cluster.urlOf("deno"), "failed");
    assert.match((await page.locator("#state").textContent()) ?? "", /open the link that npm start prints/);
  });

  it("certifies only keys that come with the invitation", async () => {
    const { invitation = "" } = closed().pages ?? {};
    const key = await nodeKey({ network: closed().network, seed: SEED });
    for (const wrong of [
      undefined,
      "00".repeat(32),
      invitation.replace(/^./, (digit) => (digit === "0" ? "1" : "0")),
    ])
      assert.equal(await askFor(JSON.stringify({ key, invitation: wrong })), 403);
    const malformed = [
      "",
      "null",
      "[]",
      "{",
      JSON.stringify({ invitation }),
      JSON.stringify({ key: "--help", invitation }),
    ];
    const oversized = JSON.stringify({ key, invitation, more: "x".repeat(1000) });
    for (const body of [...malformed, JSON.stringify({ key, invitation: [invitation] }), oversized])
      assert.equal(await askFor(body), 400, body);
    await assert.rejects(joinAsStranger(), { name: "NoCertificate" });
    assert.equal(await askFor(JSON.stringify({ key, invitation })), 200);
    await within(20_000, joinAsStranger);
  });

  it("has a name server that outlives what is no query", async () => {
    const { dnsOverHttps } = closed().zone;
    for (const body of ["", "?", "x".repeat(10_000)]) {
      const { status } = await fetch(dnsOverHttps, { method: "POST", body });
      assert.equal(status, 400, `${body.length} bytes`);
    }
    await joinAsStranger();
  });

  it("starts again as the same network, with the same nodes and the pages of before", async () => {
    const { network, pages } = closed();
    const { url = "" } = pages ?? {};
    const { ids } = test.cluster.plan;
    await test.stop();
    await assert.rejects(fetch(url), TypeError);
    test = await startCluster(NAME, { admission: "dns", keep: true });
    assert.equal(closed().network, network);
    assert.deepEqual(test.cluster.plan.ids, ids);
    await joinAsStranger();
  });

  it("says what to write in place of another admission", async () => {
    const main = ["workers/twiitr/src/main.ts", "--admission", "closed"];
    const text =
      /--admission closed is not understood: write npm start -- --admission open or npm start -- --admission dns\n/;
    await assert.rejects(run(process.execPath, main), text);
  });
});
