/**
 * A capsule that the wasmtime host wrote is fetched, read, verified and extended in workerd, Deno, Node and Chromium, one after
 * the other, each with the store of its platform; in the end all of them hold the same bytes.
 */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Miniflare } from "miniflare";
import type { Browser, Page } from "playwright-core";
import { CapsuleModule, capsuleModule } from "selfsame/capsule";
import type { Child } from "selfsame-twiitr/child";
import { freePort } from "selfsame-twiitr/ports";

import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { DATA } from "../lib/cluster.ts";
import { servePage } from "../lib/files.ts";
import { fingerprintOf, seedOf, startProgram, startScript, startWorkerd } from "../lib/replicas.ts";
import { run } from "../lib/run.ts";
import { selfsame } from "../lib/sidecar.ts";
import type { Visit, Visited } from "../portable/visit.ts";

/** More than one request holds, and than one chunk of a body. */
const LINES = 300;
const LONG = 200_000;
const RUNTIMES = ["workerd", "deno", "node", "page"] as const;

const folder = joinPath(DATA, "portable");
const module = await CapsuleModule.instantiate(await capsuleModule());
const browser: Browser | undefined = await launchChromium();

let name: string;
let host: Child;
let miniflare: Miniflare;
const scripts: Child[] = [];
let files: { url: string; close: () => void } | undefined;
let page: Page | undefined;
/** Where the replicas answer. */
const urls: Record<string, string> = {};

/** The command line of the wasmtime host, in the test's folder. */
const capsule = (...args: string[]): Promise<string> =>
  run(selfsame(), ["capsule", ...args], { cwd: folder }).then((printed) => printed.trim());
const atHost = (): string[] => ["--server", `${urls.wasmtime}#${host.said("key")}`];

async function startScripts(): Promise<void> {
  for (const runtime of ["deno", "node"] as const) {
    const port = await freePort(runtime === "deno" ? 8900 : 8920);
    const own = joinPath(folder, runtime);
    mkdirSync(own, { recursive: true });
    const child = await startScript(runtime, "portable/program.ts", [own, `${port}`, seedOf(runtime)], own);
    scripts.push(child);
    urls[runtime] = String(child.said("url"));
  }
}

async function startPage(browser: Browser): Promise<void> {
  files = await servePage("portable/page.ts");
  page = await browser.newPage();
  // To the page, another replica answers at its own origin.
  await page.route("**/replica/*", async (route) => {
    const runtime = new URL(route.request().url()).pathname.split("/").at(-1) ?? "";
    await route.fulfill({ response: await route.fetch({ url: urls[runtime] ?? "" }) });
  });
  await page.goto(files.url);
  await page.waitForFunction("document.title === 'ready'", undefined, { timeout: 60_000 });
}

before(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const serve = ["--json", "capsule", "serve", "--listen", "127.0.0.1:0", "--data", joinPath(folder, "host")];
  host = await startProgram("wasmtime", selfsame(), [...serve, "--end-with-input"], folder);
  urls.wasmtime = String(host.said("url"));
  await startScripts();
  miniflare = await startWorkerd("portable/worker.ts", joinPath(folder, "worker"));
  urls.workerd = String(await miniflare.ready);
  if (browser !== undefined) await startPage(browser);
});

after(async () => {
  await browser?.close();
  files?.close();
  await miniflare?.dispose();
  for (const child of scripts) await child.stop();
  await host?.stop();
});

/** Lets a runtime visit the capsule at another one. */
async function visitIn(
  runtime: (typeof RUNTIMES)[number],
  from: string,
  texts: readonly string[] = [],
): Promise<Visited> {
  const asked: Visit = { name, from: urls[from] ?? "", seed: seedOf(runtime), texts };
  if (runtime === "page") {
    const here: Visit = { ...asked, from: `${files?.url}replica/${from}` };
    return (await page?.evaluate(`visitHere(${JSON.stringify(here)})`)) as Visited;
  }
  const response = await fetch(`${urls[runtime]}visit`, { method: "POST", body: JSON.stringify(asked) });
  const answer = await response.text();
  assert.equal(response.status, 200, answer);
  return JSON.parse(answer) as Visited;
}

describe("a capsule of the wasmtime host", () => {
  const there = RUNTIMES.filter((runtime) => runtime !== "page" || browser !== undefined);
  let records: Readonly<Record<string, string>>;

  it("is written there, with lines, a long record and sub-records", async () => {
    writeFileSync(
      joinPath(folder, "lines"),
      Array.from({ length: LINES }, (_, line) => `line ${line}\n`).join(""),
    );
    writeFileSync(joinPath(folder, "long"), "long ".repeat(LONG / 5));
    const keyOf = (runtime: string): string =>
      Buffer.from(module.deriveKey(Buffer.from(seedOf(runtime), "hex"))).toString("hex");
    const writers = RUNTIMES.flatMap((runtime) => ["--writer", keyOf(runtime)]);
    name = await capsule("create", "--description", "portable", ...writers, ...atHost());
    for (const args of [["lines", "--lines"], ["long"], ["lines", "long", "--together"]]) {
      await capsule("append", name, ...args, ...atHost());
    }
  });

  for (const [place, runtime] of RUNTIMES.entries()) {
    const before = RUNTIMES[place - 1] ?? "wasmtime";
    const skip = there.includes(runtime) ? false : HOW_TO_GET_A_BROWSER;
    it(`is read, verified and extended in ${runtime}`, { skip }, async () => {
      const texts = [`${runtime} was here`, runtime.repeat(20_000)];
      const { found, left, heads } = await visitIn(runtime, before, texts);
      assert.equal(Object.keys(found).length, LINES + 2 + 3 * place);
      // What the one before has read, word for word.
      if (records !== undefined) assert.deepEqual(found, records);
      assert.equal(Object.keys(left).length, Object.keys(found).length + 3);
      assert.equal(heads.length, 1, "each goes on where the one before ended");
      records = left;
    });
  }

  it("is the same at all of them in the end, byte for byte", async () => {
    // Back the way that it came; each visit gives the other replica what it lacks.
    const back = there.toReversed();
    for (const [place, runtime] of back.entries()) {
      const { left } = await visitIn(runtime, back[place + 1] ?? "wasmtime");
      assert.deepEqual(left, records, runtime);
    }
    const post = (url: string) => (body: Uint8Array<ArrayBuffer>) => fetch(url, { method: "POST", body });
    const served = ["wasmtime", ...there.filter((runtime) => runtime !== "page")];
    const prints = await Promise.all(served.map((runtime) => fingerprintOf(name, post(urls[runtime] ?? ""))));
    assert.equal(new Set(prints).size, 1, prints.join("\n"));
    const log = await run(selfsame(), ["--json", "capsule", "log", name, "-n", "1000", ...atHost()], {
      cwd: folder,
    });
    const logged = log.trim().split("\n").length;
    assert.equal(logged, Object.keys(records).length);
  });

  it("is the same file wherever it is exported, and verifies", async () => {
    await capsule("export", name, "--output", "whole.capsule", ...atHost());
    const whole = readFileSync(joinPath(folder, "whole.capsule"));
    const info = await module.verifyExport([whole]);
    assert.deepEqual([info.records, info.holes], [Object.keys(records).length, 0]);
    for (const runtime of ["wasmtime", ...there.filter((runtime) => runtime !== "page")]) {
      const response = await fetch(`${urls[runtime]}${name}`);
      assert.ok(Buffer.from(await response.arrayBuffer()).equals(whole), runtime);
    }
  });
});
