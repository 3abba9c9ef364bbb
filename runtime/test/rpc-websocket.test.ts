import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import dns from "node:dns/promises";
import { once } from "node:events";
import { get } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import type { WebSocket } from "ws";
import type { RpcHandler } from "../src/rpc/handler.ts";
import { MAX_BODY } from "../src/rpc/limits.ts";
import { TestProxy } from "./rpc-proxy.ts";
import {
  ANSWER,
  call,
  echo,
  HANDSHAKE,
  held,
  manualTimers,
  REJECTION,
  requestOf,
  STATELESS,
  serve,
  silent,
  Talk,
} from "./rpc-sockets.ts";
import { CALLER, listenForSockets, SERVICE, startClient, startServer, TestMesh } from "./rpc-support.ts";
import { leaf, member, mockClocks, until } from "./support.ts";

/** The status with which a handshake is refused. */
async function refusal(url: string, headers: Record<string, string>): Promise<number | undefined> {
  const request = get(url.replace("ws:", "http:"), { headers });
  const [response] = await once(request, "response");
  response.resume();
  return response.statusCode;
}

/** Waits for a condition while clocks stand still. */
async function eventually(condition: () => boolean): Promise<void> {
  for (let at = 0; at < 500 && !condition(); at++) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.ok(condition());
}

describe("the binding of the RPC to WebSockets", () => {
  it("has one socket for all calls of a client", async (t) => {
    const { server, url } = await serve(t, echo);
    const proxy = await TestProxy.start(t, url);
    const client = startClient(t, new TestMesh(server, proxy.url));
    assert.equal(await call(client, "first", { idempotent: true }), "first");
    const texts = Array.from({ length: 50 }, (_, at) => `${at}`);
    const answers = texts.map((text) => call(client, text, { idempotent: true }));
    assert.deepEqual(await Promise.all(answers), texts);
    assert.equal(await call(client, "bound"), "bound");
    assert.equal(proxy.opened, 1);
  });

  it("takes POSTs at the same URL, and tells callers by their addresses", async (t) => {
    const handler: RpcHandler = ({ source, caller }) => new TextEncoder().encode(`${caller} ${source}`);
    const { server } = startServer(t, handler, STATELESS);
    const { http, url } = await listenForSockets(t, (request, origin) => server.fetch(request, origin));
    server.attach(http, "/rpc");
    for (const address of [url, url.replace("ws:", "http:")]) {
      const client = startClient(t, new TestMesh(server, address));
      const { payload, server: told } = await client.call(SERVICE, new Uint8Array(), { idempotent: true });
      assert.match(new TextDecoder().decode(payload), new RegExp(`^${CALLER} 127\\.0\\.0\\.1:[1-9]\\d*$`));
      assert.equal(told, address);
    }
  });

  it("shares a server of HTTP with the sockets of a mesh, and of other paths", async (t) => {
    const { mesh } = await member({ network: "rpc-sockets" });
    t.after(() => mesh.close());
    const { server } = startServer(t, echo, STATELESS);
    const { http, url } = await listenForSockets(t, (request, origin) => server.fetch(request, origin));
    mesh.attach(http);
    server.attach(http, "/rpc");
    assert.throws(() => server.attach(http, "/rpc"), { name: "BadConfig" });
    server.attach(http, "/other");
    for (const address of [url, url.replace("/rpc", "/other")]) {
      const client = startClient(t, new TestMesh(server, address));
      assert.equal(await call(client, "ping", { idempotent: true }), "ping");
    }
    const bootstrap = `${url.replace("/rpc", "/.mesh")}#${mesh.id}`;
    const peer = await leaf(bootstrap, { network: "rpc-sockets" });
    t.after(() => peer.close());
    assert.ok((await refusal(url.replace("/rpc", "/nothing"), HANDSHAKE)) !== 101);
  });

  it("refuses handshakes that are none of it", async (t) => {
    const { server } = startServer(t, echo);
    const { http, url } = await listenForSockets(t, (request, origin) => server.fetch(request, origin));
    server.attach(http, "/rpc");
    assert.equal(await refusal(url, { ...HANDSHAKE, "sec-websocket-protocol": "selfsame.1" }), 400);
    assert.equal(await refusal(url, { ...HANDSHAKE, "sec-websocket-protocol": "" }), 400);
    assert.equal(await refusal(url, { ...HANDSHAKE, "sec-websocket-key": "short" }), 400);
    assert.equal(await refusal(url, { ...HANDSHAKE, "sec-websocket-version": "7" }), 400);
    assert.equal(await refusal(url, {}), 405);
    await Talk.open(t, url);
  });

  it("closes a socket that brings no datagram of a client, and says why", async (t) => {
    const { server, url } = await serve(t, echo);
    const part = Buffer.alloc(200);
    part.set([0x60, 0b1000]);
    const wrong: [string | Buffer, number][] = [
      ["text", 1003],
      ["", 1003],
      ...[0, 1, 17, 100, 4096].map((bytes): [Buffer, number] => [Buffer.alloc(bytes), 1008]),
      [part, 1008],
      [Buffer.alloc(MAX_BODY + 1, 0x60), 1009],
    ];
    for (const [message, code] of wrong) {
      const { socket, closed } = await Talk.open(t, url);
      socket.send(message);
      assert.equal(await closed, code, `${message.length} bytes`);
    }
    const client = startClient(t, new TestMesh(server, url));
    assert.equal(await call(client, "ping"), "ping");
  });

  it("rejects a ticket that does not open, with fewer bytes than came", async (t) => {
    const { url } = await serve(t, echo);
    const talk = await Talk.open(t, url);
    for (const form of [0x60, 0x61]) {
      const forged = Buffer.alloc(200, 9);
      forged.set([form, 0]);
      talk.socket.send(forged);
      const answer = await talk.next();
      assert.equal(answer[0], REJECTION);
      assert.ok(answer.length < forged.length);
    }
  });

  it("carries a request out once that comes again, and says that it has it", async (t) => {
    const { handler, begun, answer, calls } = held();
    const { server, url } = await serve(t, handler);
    const request = await requestOf(t, server);
    const talk = await Talk.open(t, url);
    talk.socket.send(request);
    await begun;
    talk.socket.send(request);
    const [form, flags = 0] = await talk.next();
    assert.deepEqual([form, flags & 0b11], [ANSWER, 1], "an acknowledgement");
    answer();
    const response = await talk.next();
    assert.deepEqual([response[0], (response[1] ?? 0) & 0b11], [ANSWER, 0]);
    talk.socket.send(request);
    assert.deepEqual(await talk.next(), response, "the same bytes again");
    const changed = Buffer.from(request);
    changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
    talk.socket.send(changed);
    talk.socket.send(request);
    assert.deepEqual(await talk.next(), response);
    assert.deepEqual([talk.received.length, calls()], [0, 1]);
  });

  it("answers on all sockets that have brought a request and are there", async (t) => {
    const { handler, begun, answer, calls } = held();
    const { server, url } = await serve(t, handler);
    const request = await requestOf(t, server);
    const talks = await Promise.all([Talk.open(t, url), Talk.open(t, url), Talk.open(t, url)]);
    const [gone, ...there] = talks;
    gone.socket.send(request);
    await begun;
    gone.socket.terminate();
    for (const { socket } of there) socket.send(request);
    await Promise.all(there.map((talk) => talk.next()));
    answer();
    const answers = await Promise.all(there.map((talk) => until("it came", () => talk.received.length > 0)));
    assert.equal(answers.length, 2);
    for (const { received } of there) assert.equal((received.at(-1)?.[1] ?? 0) & 0b11, 0);
    assert.equal(calls(), 1);
  });
});

describe("a socket of the RPC that breaks", () => {
  it("under a call that is not idempotent costs nothing if the server is still there", async (t) => {
    const { handler, begun, answer, calls } = held();
    const { server, url } = await serve(t, handler, {});
    const proxy = await TestProxy.start(t, url);
    const client = startClient(t, new TestMesh(server, proxy.url));
    const late = call(client, "late");
    await begun;
    proxy.break();
    await until("the client has dialled again", () => proxy.opened === 2);
    answer();
    assert.equal(await late, "late");
    assert.equal(calls(), 1);
  });

  it("before the answer comes brings it with the next one", async (t) => {
    const { handler, begun, answer, calls } = held();
    const { server, url } = await serve(t, handler, {});
    const proxy = await TestProxy.start(t, url);
    const client = startClient(t, new TestMesh(server, proxy.url));
    const late = call(client, "late");
    await begun;
    proxy.stall();
    answer();
    // The answer is on its way by the time that another one is.
    const other = startClient(t, new TestMesh(server, url));
    assert.equal(await call(other, "other"), "other");
    proxy.break();
    assert.equal(await late, "late");
    assert.deepEqual([calls(), proxy.opened], [2, 2]);
  });

  it("under a call that is not idempotent ends it if another server has taken the place", async (t) => {
    const { handler, begun, answer, calls } = held();
    const { server, url } = await serve(t, handler, {});
    const proxy = await TestProxy.start(t, url);
    const client = startClient(t, new TestMesh(server, proxy.url));
    const lost = call(client, "lost");
    await begun;
    const next = await serve(t, handler, {});
    proxy.target = Number(new URL(next.url).port);
    proxy.break();
    await assert.rejects(lost, { name: "OutcomeUnknown" });
    assert.equal(calls(), 1);
    answer();
    assert.equal(await call(client, "the next one"), "the next one");
  });

  it("because its server fails is dialled again", async (t) => {
    const { server, url } = await serve(t, echo);
    const { sockets, url: other } = await silent(t);
    const proxy = await TestProxy.start(t, other);
    const client = startClient(t, new TestMesh(server, proxy.url));
    const connected = once(sockets, "connection");
    const answer = call(client, "ping", { idempotent: true });
    const [socket] = (await connected) as [WebSocket];
    await once(socket, "message");
    proxy.target = Number(new URL(url).port);
    socket.close(1011);
    assert.equal(await answer, "ping");
  });
});

describe("what a client of the RPC takes from a socket", () => {
  it("is one datagram in each message, and nothing else", async (t) => {
    const { server, url } = await serve(t, echo);
    const { sockets, url: wrong } = await silent(t);
    const codes: number[] = [];
    const messages = ["text", Buffer.alloc(MAX_BODY + 1)];
    const proxy = await TestProxy.start(t, wrong);
    sockets.on("connection", (socket) => {
      for (const noise of [0, 1, 100])
        for (const form of [0, ANSWER, REJECTION, 0x66, 0xff]) {
          const datagram = Buffer.alloc(noise, 7);
          if (noise > 0) datagram[0] = form;
          socket.send(datagram);
        }
      const message = messages.shift();
      if (messages.length === 0) proxy.target = Number(new URL(url).port);
      socket.send(message ?? assert.fail("it was dialled too often"));
      socket.on("close", (code) => codes.push(code));
    });
    const client = startClient(t, new TestMesh(server, proxy.url));
    assert.equal(await call(client, "ping", { idempotent: true }), "ping");
    await until("both sockets are closed", () => codes.length === 2);
    assert.deepEqual(codes, [1003, 1009]);
  });

  it("is asked for once while the server is there, and then of another one", async (t) => {
    const { timers, fire } = manualTimers();
    const { server } = startServer(t, echo, STATELESS);
    const { sockets, url } = await silent(t);
    const mesh = Object.assign(new TestMesh(server, url), { timers });
    const client = startClient(t, mesh);
    mockClocks(t, ["Date"], Date.now());
    const connected = once(sockets, "connection");
    const lost = call(client, "ping", { idempotent: true, timeout_ms: 120_000 });
    lost.catch(() => undefined);
    const [socket] = (await connected) as [WebSocket];
    const copies: Buffer[] = [];
    socket.on("message", (data: Buffer) => copies.push(data));
    await eventually(() => copies.length === 1);
    const later = async (seconds: number): Promise<void> => {
      for (let at = 0; at < seconds; at++) {
        t.mock.timers.tick(1000);
        fire();
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    await later(9);
    assert.equal(copies.length, 1, "a stream loses nothing");
    await later(9);
    await eventually(() => copies.length === 2);
    assert.deepEqual(copies[1], copies[0]);
    const again = once(sockets, "connection");
    const broken = once(socket, "close");
    await later(25);
    await broken;
    await again;
  });

  it("comes over a socket that is closed when it is not used", async (t) => {
    const { timers, fire } = manualTimers();
    const { server, url } = await serve(t, echo);
    const proxy = await TestProxy.start(t, url);
    const client = startClient(t, Object.assign(new TestMesh(server, proxy.url), { timers }));
    const now = performance.now();
    let ahead_ms = 0;
    t.mock.method(performance, "now", () => now + ahead_ms);
    assert.equal(await call(client, "first", { idempotent: true }), "first");
    fire();
    assert.equal(await call(client, "second", { idempotent: true }), "second");
    assert.equal(proxy.opened, 1);
    ahead_ms = 31_000;
    fire();
    await until("the socket is closed", () => proxy.open === 0);
    assert.equal(await call(client, "third", { idempotent: true }), "third");
    assert.equal(proxy.opened, 2);
  });

  it("comes from no address inside that a name leads to", async (t) => {
    const { server } = startServer(t, echo);
    const mesh = Object.assign(new TestMesh(server, "wss://public.example/rpc"), { allowPrivate: false });
    const client = startClient(t, mesh);
    const inside = async (): Promise<unknown> => [{ address: "127.0.0.1", family: 4 }];
    t.mock.method(dns, "lookup", inside as unknown as typeof dns.lookup);
    syncBuiltinESMExports();
    t.after(() => {
      t.mock.restoreAll();
      syncBuiltinESMExports();
    });
    await assert.rejects(call(client, "ping"), { name: "ForbiddenAddress" });
  });

  it("does not keep a process alive that waits for no answer", async (t) => {
    const { server, url } = await serve(t, echo);
    const ticket = Buffer.from(await server.issueTicket(CALLER, url)).toString("base64");
    const entry = new URL("../src/entries/rpc-node.ts", import.meta.url).href;
    const program = `
      import { createRpcClient } from ${JSON.stringify(entry)};
      const ticket = Buffer.from(${JSON.stringify(ticket)}, "base64");
      const fetch = async (url) =>
        url.endsWith("/call") ? new Response(null, { status: 404 }) : new Response(ticket);
      const client = createRpcClient({ mesh: { allowPrivate: true, fetch } });
      const { payload } = await client.call(${JSON.stringify(SERVICE)}, Buffer.from("ping"));
      console.log(Buffer.from(payload).toString());`;
    const args = ["--input-type=module", "--eval", program];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 20_000 });
    assert.equal(stdout, "ping\n");
  });
});
