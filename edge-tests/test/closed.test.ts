/**
 * One ring of all five runtimes in a closed network: each node finds its certificate in a zone of the DNS, which a resolver over
 * HTTPS gives that is another library's. Everybody calls everybody's service by its owner's grant; a Durable Object starts again in
 * an outage of the DNS; who has no certificate, or is revoked, is refused.
 */
import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, get, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Miniflare } from "miniflare";
import type { Browser, Page } from "playwright-core";
import { dns, nodeKey } from "selfsame/admission";
import { type JoinOptions, join, type Mesh, memory } from "selfsame/node";
import { buildHost } from "selfsame-twiitr/build";
import type { Child } from "selfsame-twiitr/child";
import { freePort } from "selfsame-twiitr/ports";

import { ZoneServer } from "../../runtime/test/zone-server.ts";
import type { Answer, Called } from "../closed/answer.ts";
import type { ClosedSettings } from "../closed/settings.ts";
import { Authority } from "../lib/authority.ts";
import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { DATA, within } from "../lib/cluster.ts";
import { servePage } from "../lib/files.ts";
import { startWorkerd } from "../lib/replicas.ts";
import { startMember } from "../lib/runtimes.ts";
import { type Program, selfsame, start } from "../lib/sidecar.ts";

const NAMES = ["rust", "node", "deno", "workerd", "page"] as const;
type Name = (typeof NAMES)[number];
const ZONE = "ring.example";
const HOST = "127.0.0.1";
/** How soon the others part with a node that is revoked. */
const AT_ONCE_MS = 5_000;

const folder = joinPath(DATA, "closed");
const browser: Browser | undefined = await launchChromium();
const withPage = { skip: browser === undefined && HOW_TO_GET_A_BROWSER };

let zone: ZoneServer;
let authority: Authority;
let behind: Server;
let sidecar: Program;
let proxy = "";
let bootstrap = "";
let worker: Miniflare | undefined;
let page: Page | undefined;
let files: Awaited<ReturnType<typeof servePage>> | undefined;
const members: Child[] = [];
const urls: Partial<Record<Name, string>> = {};
const ids: Partial<Record<Name, string>> = {};
const keys: Partial<Record<Name, string>> = {};
/** Names in the DNS. */
const records: Partial<Record<Name, string>> = {};
const settings: Partial<Record<Name, ClosedSettings>> = {};

const seedOf = (name: string): string => Buffer.from(name.padEnd(32, ".")).toString("hex");

/** Has a node certified in the zone, and its service granted. */
async function admit(name: Name, key: string, port?: number): Promise<string> {
  const address = port === undefined ? undefined : `${HOST}:${port}`;
  const signed = await authority.sign(key, address);
  zone.load(signed.zone);
  ids[name] = signed.id;
  keys[name] = key;
  records[name] = signed.zone.split(". ")[0] ?? "";
  return authority.grant(name, signed.id);
}

async function settingsOf(name: Name, port: number, part: "leaf" | "member"): Promise<ClosedSettings> {
  const { network, owner } = authority;
  const seed = seedOf(name);
  const key = await nodeKey({ network, seed });
  const grant = await admit(name, key, part === "leaf" ? undefined : port);
  const made = { name, network, port, bootstrap, seed, owner, grant, zone: ZONE, resolver: zone.url };
  settings[name] = made;
  return made;
}

/** Starts a sidecar of the Rust host in front of a server that knows of no mesh. */
async function startRust(): Promise<void> {
  behind = createServer((request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ from: "rust", caller: String(request.headers["selfsame-caller"]) }));
  });
  await new Promise<void>((listening) => behind.listen(0, HOST, listening));
  const { port: served } = behind.address() as AddressInfo;
  const data = joinPath(folder, "rust");
  const port = await freePort(8900);
  const grant = joinPath(folder, "rust.grant");
  writeFileSync(grant, await admit("rust", await authority.keyOf(data), port));
  const args = ["--json", "proxy", "--network", authority.network, "--owner", authority.owner];
  args.push("--allow-private", "--end-with-input", "--data", data, "--listen", `${HOST}:0`);
  args.push("--node-listen", `ws://${HOST}:${port}`, "--expose", `rust=http://${HOST}:${served}`);
  args.push("--grant", grant, "--dns", ZONE, "--dns-over-https", zone.url);
  sidecar = start("the sidecar", selfsame(), args);
  const told = async (event: string): Promise<Record<string, string>> =>
    JSON.parse(await sidecar.line((line) => JSON.parse(line).event === event));
  const { id } = await told("started");
  assert.equal(id, ids.rust);
  bootstrap = `ws://${HOST}:${port}/.mesh#${id}`;
  proxy = (await told("proxy")).address ?? "";
  await told("published");
}

async function startIn(name: "node" | "deno"): Promise<void> {
  const made = await settingsOf(name, await freePort(name === "node" ? 8920 : 8940), "member");
  const member = await startMember("edge-tests/closed/member.ts", made, folder);
  members.push(member);
  assert.equal(member.said("id"), ids[name]);
  urls[name] = String(member.said("url"));
}

/** Starts the Worker, whose object keeps what it has. */
async function startInWorkerd(made: ClosedSettings): Promise<Miniflare> {
  const { port } = made;
  const bindings = {
    SETTINGS: JSON.stringify({ ...made, bootstrap: made.bootstrap.replace("ws:", "http:") }),
  };
  const out = joinPath(folder, `worker-${port}`);
  mkdirSync(joinPath(out, "data"), { recursive: true });
  return startWorkerd("closed/worker.ts", out, { port, bindings, data: joinPath(out, "data") });
}

async function startPage(browser: Browser): Promise<void> {
  const made = await settingsOf("page", 0, "leaf");
  files = await servePage("closed/page.ts");
  page = await browser.newPage();
  await page.goto(`${files.url}?${new URLSearchParams({ settings: JSON.stringify(made) })}`);
  await page.waitForFunction("document.title === 'ready'", undefined, { timeout: 20_000 });
}

before(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  if (process.env.SELFSAME_BIN === undefined) await buildHost(() => undefined);
  zone = await ZoneServer.start();
  authority = await Authority.create(selfsame(), folder, "five", ZONE);
  await startRust();
  await startIn("node");
  await startIn("deno");
  const made = await settingsOf("workerd", await freePort(8960), "member");
  worker = await startInWorkerd(made);
  urls.workerd = `http://${HOST}:${made.port}`;
  // An object begins when it is first asked for.
  assert.deepEqual(await call("workerd", "node"), { from: "node", caller: ids.workerd });
  if (browser !== undefined) await startPage(browser);
});

after(async () => {
  await browser?.close();
  files?.close();
  await worker?.dispose();
  for (const member of members) await member.stop();
  await sidecar?.stop();
  behind?.close();
  zone?.close();
});

/** Lets a node call a service. */
async function call(from: Name, to: Name): Promise<Called> {
  if (from === "page") return (await page?.evaluate(`callTo("${to}")`)) as Called;
  if (from === "rust") return throughSidecar(to);
  return (await (await fetch(`${urls[from]}/call/${to}`)).json()) as Called;
}

/** A call of a program that knows of no mesh, whose proxy is the sidecar. */
function throughSidecar(to: Name): Promise<Called> {
  return new Promise((resolve, reject) => {
    const request = get(`http://${proxy}/`, { headers: { host: `${to}.mesh` } }, (response) => {
      const pieces: Buffer[] = [];
      response.on("data", (piece) => pieces.push(piece));
      response.on("end", () => {
        const text = Buffer.concat(pieces).toString();
        resolve(response.statusCode === 200 ? JSON.parse(text) : { error: text });
      });
    });
    request.on("error", reject);
  });
}

/** Joins as a leaf in this process. */
function joinAs(seed: string, options: Partial<JoinOptions> = {}): Promise<Mesh> {
  const admission = dns({ domain: ZONE, dnsOverHttps: zone.url });
  const base = { network: authority.network, admission, storage: memory(), allowPrivate: true };
  return join({ ...base, seed: seedOf(seed), bootstrap, log: () => undefined, ...options });
}

describe("a ring of all five runtimes in a closed network", () => {
  for (const from of NAMES) {
    for (const to of NAMES.filter((name) => name !== from)) {
      it(`lets ${from} call ${to}`, from === "page" || to === "page" ? withPage : {}, async () => {
        await within(20_000, async () => {
          const expected: Answer = { from: to, caller: ids[from] ?? "" };
          assert.deepEqual(await call(from, to), expected);
        });
      });
    }
  }

  it("has certificates asked for under the keys of all, of which a Durable Object tells its own", async () => {
    const key = await (await fetch(`${urls.workerd}/key`)).text();
    assert.equal(key, keys.workerd);
    // The Rust member asks for newcomers as well.
    assert.deepEqual([...new Set(zone.asked)].sort(), Object.values(records).sort());
  });

  it("lets a Durable Object go on with another certificate, and no other's", async () => {
    const { port } = settings.workerd ?? assert.fail();
    const renewed = await authority.sign(keys.workerd ?? "", `${HOST}:${port}`);
    const others = await authority.sign(keys.node ?? "", `${HOST}:${port}`);
    for (const [{ certificate: body }, expected] of [
      [renewed, 200],
      [others, 500],
    ] as const)
      assert.equal((await fetch(`${urls.workerd}/renew`, { method: "POST", body })).status, expected);
  });

  it("admits a Durable Object that starts again while no resolver answers, by what it has kept", async () => {
    await worker?.dispose();
    zone.misbehaviour = (response) => response.destroy();
    worker = await startInWorkerd(settings.workerd ?? assert.fail());
    const expected = { from: "node", caller: ids.workerd };
    await within(60_000, async () => assert.deepEqual(await call("workerd", "node"), expected));
    zone.misbehaviour = undefined;
  });

  it("refuses who has no certificate, each with its code", async () => {
    await assert.rejects(joinAs("stranger"), { name: "NoCertificate" });
    await assert.rejects(joinAs("stranger", { admission: undefined }), { name: "NoCertificate" });
    const open = { network: "five", admission: undefined };
    await assert.rejects(joinAs("stranger", open), { name: "WrongNetwork" });
    mkdirSync(joinPath(folder, "other"));
    const other = await Authority.create(selfsame(), joinPath(folder, "other"), "five", ZONE);
    const key = await nodeKey({ network: authority.network, seed: seedOf("stranger") });
    zone.load((await other.sign(key)).zone);
    await assert.rejects(joinAs("stranger"), { name: "WrongIssuer" });
    const port = await freePort(8980);
    const made = { ...(settings.workerd ?? assert.fail()), port, seed: seedOf("a Durable Object") };
    const uncertified = await startInWorkerd(made);
    try {
      const asked = zone.asked.length;
      // Whoever knocks does not cause a lookup each time.
      for (let count = 0; count < 3; count++) {
        const response = await fetch(`http://${HOST}:${port}/call/node`);
        assert.deepEqual(await response.json(), { error: "NoCertificate" });
      }
      assert.equal(zone.asked.length, asked + 1);
    } finally {
      await uncertified.dispose();
    }
  });

  it("parts at once with who is revoked, whom nobody calls and who calls nobody", async (context) => {
    const list = await authority.revoke(keys.deno ?? "");
    const response = await fetch(`${urls.workerd}/revoke`, { method: "POST", body: list });
    assert.equal(response.status, 200);
    const others = NAMES.filter((name) => name !== "deno" && (name !== "page" || page !== undefined));
    const seconds = await within(AT_ONCE_MS, async () => {
      for (const from of others) assert.ok("error" in (await call(from, "deno")), from);
      assert.ok("error" in (await call("deno", "node")));
    });
    context.diagnostic(`after ${seconds.toFixed(2)} s`);
    for (const from of others.filter((name) => name !== "node"))
      assert.deepEqual(await call(from, "node"), { from: "node", caller: ids[from] });
    const port = await freePort(8990);
    const address = `ws://${HOST}:${port}/.mesh`;
    await assert.rejects(joinAs("deno", { address }), { name: "RevokedCertificate" });
  });

  it("lets a page pass a list on", withPage, async () => {
    const list = await authority.revoke(keys.deno ?? "", keys.node ?? "");
    await page?.evaluate(`revoke("${list}")`);
    await within(AT_ONCE_MS, async () => {
      for (const from of ["rust", "workerd"] as const) assert.ok("error" in (await call(from, "node")), from);
    });
  });
});
