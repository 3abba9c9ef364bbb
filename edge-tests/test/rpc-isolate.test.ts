/**
 * Replicas that share nothing but a ticket key: fresh isolates of workerd, and processes of Deno, each answer the first POST that they
 * get from a client with a ticket of another one, and what comes over WebSockets.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Miniflare } from "miniflare";
import type { Browser } from "playwright-core";
import {
  createRpcClient,
  createRpcServer,
  type RpcCallOptions,
  type RpcClient,
  TICKET_PATH,
} from "selfsame/rpc";
import type { Child } from "selfsame-twiitr/child";
import { freePort } from "selfsame-twiitr/ports";

import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { DATA } from "../lib/cluster.ts";
import { servePage } from "../lib/files.ts";
import { startScript, startWorkerd } from "../lib/replicas.ts";
import { CALLER, type Errand, NETWORK, SERVICE, type Told } from "../rpc/echo.ts";

const folder = joinPath(DATA, "rpc-isolate");
const KEY = "07".repeat(32);
const NAMES = ["first", "second"] as const;

const browser: Browser | undefined = await launchChromium();

/** Issues the tickets, and answers no calls. */
const issuer = createRpcServer({
  network: NETWORK,
  service: SERVICE,
  ticketKey: Buffer.from(KEY, "hex"),
  handler: () => assert.fail("it answers no calls"),
});
/** Where tickets say that the service is. */
let home = "http://127.0.0.1:9/rpc";
let asked = 0;
let client: RpcClient;

async function ticket(address: string): Promise<Uint8Array<ArrayBuffer>> {
  asked++;
  return issuer.issueTicket(CALLER, address);
}

before(() => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  client = createRpcClient({
    mesh: {
      allowPrivate: true,
      fetch: async (input) =>
        `${input}`.endsWith(TICKET_PATH)
          ? new Response(await ticket(home))
          : new Response(null, { status: 404 }),
    },
  });
});

after(async () => {
  client.close();
  issuer.close();
  await browser?.close();
});

async function call(text: string, options: RpcCallOptions): Promise<Told> {
  const { payload } = await client.call(SERVICE, new TextEncoder().encode(text), options);
  return JSON.parse(new TextDecoder().decode(payload)) as Told;
}

async function orderFor(server: string, text = "errand"): Promise<Errand> {
  return { server, ticket: Buffer.from(await ticket(server)).toString("base64"), text };
}

/** The URL at which a server takes WebSockets. */
const sockets = (url: string): string => url.replace("http:", "ws:");

/** Lets a replica call another one. */
async function errand(url: string, server: string): Promise<Told> {
  const order = await orderFor(server);
  const response = await fetch(new URL("/errand", url), { method: "POST", body: JSON.stringify(order) });
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as Told;
}

describe("two isolates of workerd", () => {
  const workers: Miniflare[] = [];
  const urls: string[] = [];

  before(async () => {
    for (const name of NAMES) {
      const worker = await startWorkerd("rpc/worker.ts", joinPath(folder, name), {
        bindings: { NAME: name, KEY },
      });
      workers.push(worker);
      urls.push(new URL("/rpc", await worker.ready).href);
    }
  });

  after(async () => {
    for (const worker of workers) await worker.dispose();
  });

  it("answer the first POST that each gets, under one ticket", async () => {
    const before = asked;
    for (const [at, name] of NAMES.entries()) {
      const told = await call("first", { idempotent: true, server: urls[at] });
      assert.deepEqual(told, { name, posts: 1, calls: 1, text: "first" });
    }
    assert.equal(asked, before + 1);
  });

  it("answer calls that overlap, each in its own request", async () => {
    const [server] = urls;
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        call(at % 2 === 0 ? "slow" : `${at}`, { idempotent: true, server }),
      ),
    );
    assert.deepEqual(
      answers.map(({ text }) => text),
      Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? "slow" : `${at}`)),
    );
  });

  it("take a megabyte both ways", async () => {
    const text = "x".repeat(1024 * 1024);
    assert.equal((await call(text, { idempotent: true, server: urls[1] })).text, text);
  });

  it("call each other", async () => {
    const [first = "", second = ""] = urls;
    assert.equal((await errand(first, second)).name, "second");
    assert.equal((await errand(second, first)).name, "first");
    assert.equal((await errand(first, sockets(second))).name, "second");
  });

  it("answer calls over WebSockets, all of a client over one", async () => {
    const server = sockets(urls[1] ?? "");
    const { posts } = await call("first", { idempotent: true, server });
    const texts = ["slow", "x".repeat(1024 * 1024), "slow", "last"];
    const answers = await Promise.all(texts.map((text) => call(text, { idempotent: true, server })));
    assert.deepEqual(
      answers.map(({ text, posts }) => [text, posts]),
      texts.map((text) => [text, posts]),
    );
  });

  it("are called by a page of another origin", {
    skip: browser === undefined && HOW_TO_GET_A_BROWSER,
  }, async (t) => {
    const files = await servePage("rpc/page.ts");
    t.after(() => files.close());
    const page = await browser?.newPage();
    await page?.goto(files.url);
    await page?.waitForFunction("document.title === 'ready'");
    for (const server of [urls[0] ?? "", sockets(urls[0] ?? "")]) {
      for (const text of ["from a page", "x".repeat(1024 * 1024)]) {
        const order = JSON.stringify(await orderFor(server, text));
        const told = (await page?.evaluate(`errandHere(${order})`)) as Told;
        assert.equal(told.text, text);
      }
    }
  });

  it("carry calls that are not idempotent out in a Durable Object, once", async () => {
    const server = new URL("/object", urls[0]).href;
    for (const [calls, text] of [
      [1, "one"],
      [2, "two"],
    ] as const) {
      const told = await call(text, { server });
      assert.deepEqual({ ...told, posts: 0 }, { name: "first object", posts: 0, calls, text });
    }
  });

  it("carry calls that are not idempotent out in a Durable Object, once, over one WebSocket", async () => {
    const server = sockets(new URL("/object", urls[1]).href);
    const texts = Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? "slow" : `${at}`));
    const answers = await Promise.all(texts.map((text) => call(text, { server })));
    assert.deepEqual(
      answers.map(({ name, text, posts }) => ({ name, text, posts })),
      texts.map((text) => ({ name: "second object", text, posts: 1 })),
    );
    assert.equal((await call("last", { server })).calls, texts.length + 1);
  });
});

describe("a Durable Object of the RPC", () => {
  it("says with which code it closes a socket that brings no datagram of a client", async (t) => {
    const bindings = { NAME: "strict", KEY };
    const worker = await startWorkerd("rpc/worker.ts", joinPath(folder, "strict"), { bindings });
    t.after(() => worker.dispose());
    const url = sockets(new URL("/object", await worker.ready).href);
    const part = new Uint8Array(200);
    part.set([0x60, 0b1000]);
    for (const [message, code] of [
      ["text", 1003],
      [new Uint8Array(200), 1008],
      [part, 1008],
    ] as const) {
      const socket = new WebSocket(url, "selfsame-rpc.1");
      const closed = once(socket, "close");
      await once(socket, "open");
      socket.send(message);
      const [event] = (await closed) as [{ code: number }];
      assert.equal(event.code, code);
    }
    assert.equal((await call("sound", { server: url })).calls, 1);
  });

  it("that ends under a call does not carry it out again in its next life", async (t) => {
    const port = await freePort(8740);
    const start = (life: string): Promise<Miniflare> =>
      startWorkerd("rpc/worker.ts", joinPath(folder, life), { port, bindings: { NAME: life, KEY } });
    const first = await start("first life");
    const server = `ws://127.0.0.1:${port}/object`;
    assert.equal((await call("one", { server })).calls, 1);
    const lost = call("never", { server });
    const outcome = assert.rejects(lost, { name: "OutcomeUnknown" });
    // The object has begun the call before it answers this one, which came after it on the same socket.
    assert.equal((await call("two", { server })).calls, 3);
    await first.dispose();
    const second = await start("second life");
    t.after(() => second.dispose());
    await outcome;
    const told = await call("three", { server, idempotent: true });
    assert.deepEqual([told.name, told.calls], ["second life object", 1]);
  });
});

describe("two processes of Deno", () => {
  const programs: Child[] = [];
  const said = (at: number, what: "url" | "udp" | "router"): string => String(programs[at]?.said(what));

  before(async () => {
    for (const [at, name] of NAMES.entries()) {
      const port = await freePort(8700 + 20 * at);
      programs.push(
        await startScript("deno", "rpc/program.ts", [name, KEY, `${port}`], joinPath(folder, name)),
      );
    }
  });

  after(async () => {
    for (const program of programs) await program.stop();
  });

  it("answer the first POST that each gets, under one ticket", async () => {
    const before = asked;
    for (const [at, name] of NAMES.entries()) {
      const told = await call("first", { idempotent: true, server: said(at, "url") });
      assert.deepEqual(told, { name, posts: 1, calls: 1, text: "first" });
    }
    assert.equal(asked, before);
  });

  it("answer the first datagram that each gets", async () => {
    home = said(0, "udp");
    for (const [at, name] of NAMES.entries()) {
      const told = await call("datagram", { idempotent: true, server: said(at, "udp") });
      assert.deepEqual(told, { name, posts: 1, calls: 2, text: "datagram" });
    }
  });

  it("call each other over UDP, HTTP and WebSocket", async () => {
    const [first, second] = [0, 1].map((at) => [said(at, "udp"), said(at, "url"), sockets(said(at, "url"))]);
    for (const server of second ?? []) assert.equal((await errand(said(0, "url"), server)).name, "second");
    for (const server of first ?? []) assert.equal((await errand(said(1, "url"), server)).name, "first");
  });

  it("answer calls over WebSockets, all of a client over one", async () => {
    const server = sockets(said(0, "url"));
    const { posts } = await call("first", { idempotent: true, server });
    for (const text of ["second", "slow", "x".repeat(1024 * 1024)]) {
      const told = await call(text, { idempotent: true, server });
      assert.deepEqual([told.text, told.posts], [text, posts]);
    }
  });

  it("close a socket that brings no datagram of a client", async () => {
    for (const message of ["text", new Uint8Array(200)]) {
      const socket = new WebSocket(sockets(said(0, "url")), "selfsame-rpc.1");
      const closed = once(socket, "close");
      await once(socket, "open");
      socket.send(message);
      await closed;
    }
  });

  it("route calls to a replica, which answers itself", async () => {
    const { payload, server } = await client.call(SERVICE, new TextEncoder().encode("routed"), {
      idempotent: true,
      server: said(1, "router"),
    });
    assert.equal((JSON.parse(new TextDecoder().decode(payload)) as Told).name, "second");
    assert.equal(server, said(1, "udp"));
  });

  it("take a megabyte both ways over UDP", async () => {
    const text = "x".repeat(1024 * 1024);
    assert.equal((await call(text, { idempotent: true, server: said(0, "udp") })).text, text);
  });
});
