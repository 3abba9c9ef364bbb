/** Certificates in DNS are looked up in every runtime: over HTTPS in all, over UDP and TCP in Node and Deno. */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join as joinPath } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import type { Miniflare } from "miniflare";
import type { Browser } from "playwright-core";

import type { Errand, Told } from "../dns/errand.ts";
import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { DATA } from "../lib/cluster.ts";
import { servePage } from "../lib/files.ts";
import { startWorkerd } from "../lib/replicas.ts";
import { DENO, run } from "../lib/run.ts";

const folder = joinPath(DATA, "admission");
const KEY = "09".repeat(32);
/** The text of the value `old`, which the servers here tell. */
const TEXT = Buffer.from("selfsame1=b2xk");
const FOUND: Told = { values: [Buffer.from("old").toString("hex")] };

const browser: Browser | undefined = await launchChromium();
const web = createServer((request, reply) => void answerOverHttp(request, reply));
const udp = createSocket("udp4");
/** Asks with resolvers of these options, whose answers are honest or not. */
let honest: Errand;
let forged: Errand;
let redirected: Errand;
let overUdp: Errand;

before(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  web.listen(0, "127.0.0.1");
  udp.on("message", (query, { port, address }) => udp.send(answer(query), port, address));
  udp.bind(0, "127.0.0.1");
  await Promise.all([once(web, "listening"), once(udp, "listening")]);
  const { port } = web.address() as AddressInfo;
  const errand = (options: Errand["options"]): Errand => ({ options, domain: "ring.example", key: KEY });
  honest = errand({ url: `http://127.0.0.1:${port}/dns-query` });
  forged = errand({ url: `http://127.0.0.1:${port}/forged` });
  redirected = errand({ url: `http://127.0.0.1:${port}/elsewhere` });
  overUdp = errand({ servers: [`127.0.0.1:${udp.address().port}`] });
});

after(async () => {
  web.closeAllConnections();
  web.close();
  udp.close();
  await browser?.close();
});

/** The response with the value; what follows the question of a query is the EDNS record, of 11 bytes. */
function answer(query: Buffer): Buffer {
  const head = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
  const record = Buffer.from([0xc0, 12, 0, 16, 0, 1, 0, 0, 1, 0x2c, 0, TEXT.length + 1, TEXT.length]);
  return Buffer.concat([head, query.subarray(12, query.length - 11), record, TEXT]);
}

async function answerOverHttp(request: IncomingMessage, reply: ServerResponse): Promise<void> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece);
  reply.setHeader("access-control-allow-origin", "*").setHeader("access-control-allow-headers", "*");
  if (request.method === "OPTIONS") {
    reply.end();
    return;
  }
  if (request.url === "/elsewhere") {
    reply.writeHead(307, { location: "/dns-query" }).end();
    return;
  }
  const message = answer(Buffer.concat(pieces));
  // Another name than the one that was asked for.
  if (request.url === "/forged") message.writeUInt8(message.readUInt8(13) ^ 1, 13);
  reply.setHeader("content-type", "application/dns-message").end(message);
}

describe("certificates in DNS", () => {
  it("are found by a Durable Object, over HTTPS", async (t) => {
    const worker: Miniflare = await startWorkerd("dns/worker.ts", folder);
    t.after(() => worker.dispose());
    const url = await worker.ready;
    const ask = async (errand: Errand): Promise<unknown> => {
      const response = await fetch(url, { method: "POST", body: JSON.stringify(errand) });
      assert.equal(response.status, 200, await response.clone().text());
      return response.json();
    };
    assert.deepEqual(await ask(honest), FOUND);
    assert.deepEqual(await ask(forged), { error: "WrongDnsAnswer" });
    assert.deepEqual(await ask(redirected), { error: "DialFailed" });
    assert.deepEqual(await ask(overUdp), { error: "BadConfig" });
  });

  it("are found by a page, over HTTPS", {
    skip: browser === undefined && HOW_TO_GET_A_BROWSER,
  }, async (t) => {
    const files = await servePage("dns/page.ts");
    t.after(() => files.close());
    const page = await browser?.newPage();
    await page?.goto(files.url);
    await page?.waitForFunction("document.title === 'ready'");
    const ask = (errand: Errand): unknown => page?.evaluate(`errandHere(${JSON.stringify(errand)})`);
    assert.deepEqual(await ask(honest), FOUND);
    assert.deepEqual(await ask(forged), { error: "WrongDnsAnswer" });
    assert.deepEqual(await ask(redirected), { error: "DialFailed" });
    assert.deepEqual(await ask(overUdp), { error: "BadConfig" });
  });

  for (const [name, command, flags] of [
    ["Node", process.execPath, []],
    ["Deno", DENO, ["run", "--quiet", "--no-prompt", "--cached-only", "--allow-all"]],
  ] as const) {
    it(`are found by ${name}, over HTTPS and UDP`, async () => {
      const program = joinPath(import.meta.dirname, "../dns/program.ts");
      const ask = async (errand: Errand): Promise<unknown> =>
        JSON.parse(await run(command, [...flags, program, JSON.stringify(errand)]));
      assert.deepEqual(await ask(honest), FOUND);
      assert.deepEqual(await ask(forged), { error: "WrongDnsAnswer" });
      assert.deepEqual(await ask(redirected), { error: "DialFailed" });
      assert.deepEqual(await ask(overUdp), FOUND);
    });
  }
});
