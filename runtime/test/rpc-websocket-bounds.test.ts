import assert from "node:assert/strict";
import { once } from "node:events";
import { get } from "node:http";
import type { Socket } from "node:net";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { WebSocket } from "ws";
import type { RpcClient } from "../src/rpc/client.ts";
import type { RpcHandler } from "../src/rpc/handler.ts";
import { MAX_BODY } from "../src/rpc/limits.ts";
import { TestProxy } from "./rpc-proxy.ts";
import {
  ANSWER,
  BEHIND_PROXY,
  call,
  echo,
  HANDSHAKE,
  held,
  MIB,
  manualTimers,
  PROTOCOL,
  requestOf,
  STATELESS,
  serve,
  Talk,
} from "./rpc-sockets.ts";
import { listenForSockets, SERVICE, startClient, startServer, TestMesh } from "./rpc-support.ts";
import { until } from "./support.ts";

/** A handler whose answers, of 1 MiB each, are given when the test says so. */
function heldAnswers(): ReturnType<typeof held> {
  const { handler, ...rest } = held();
  return { ...rest, handler: async (request) => Buffer.concat([await handler(request), Buffer.alloc(MIB)]) };
}

describe("what clients of the RPC take of a server over WebSocket", () => {
  it("are sockets of which one source leaves some to others", async (t) => {
    const { url } = await serve(t, echo, BEHIND_PROXY);
    const from = (source: string): Promise<Talk> => Talk.open(t, url, { "x-forwarded-for": source });
    await from("1.1.1.1");
    const sockets = await Promise.all(Array.from({ length: 1023 }, (_, at) => from(`1.1.1.${at % 256}`)));
    const refused = new WebSocket(url, PROTOCOL, { headers: { "x-forwarded-for": "1.1.1.9" } });
    const [request, response] = await once(refused, "unexpected-response");
    assert.equal(response.statusCode, 429);
    assert.equal(response.headers["retry-after"], "1");
    request.destroy();
    await from("1.1.2.1");
    for (const { socket } of sockets) socket.close();
    await Promise.all(sockets.map(({ closed }) => closed));
    await from("1.1.1.9");
  });

  it("are requests of which one source leaves some to others", async (t) => {
    const { handler, answer, calls } = held();
    const sources = new Set<string>();
    const noting: RpcHandler = (request) => {
      sources.add(request.source.replace(/:.*/, ""));
      return handler(request);
    };
    const { server, url } = await serve(t, noting, BEHIND_PROXY);
    const start = async (source: string): Promise<{ proxy: TestProxy; client: RpcClient }> => {
      const proxy = await TestProxy.start(t, url, source);
      return { proxy, client: startClient(t, new TestMesh(server, proxy.url)) };
    };
    const options = { idempotent: true, timeout_ms: 60_000 };
    const many = ({ client }: { client: RpcClient }): Promise<string>[] =>
      Array.from({ length: 600 }, (_, at) => call(client, `${at}`, options));
    const [first, second, other] = [await start("1.1.1.1"), await start("1.1.1.2"), await start("1.1.2.1")];
    const answers = many(first);
    await until("the calls of the first are carried out", () => calls() === 600);
    answers.push(...many(second));
    await until("the socket of the second was closed", () => second.proxy.opened > 1);
    answers.push(call(other.client, "other", options));
    await until("the call of another source is carried out", () => sources.has("1.1.2.1"));
    assert.deepEqual([first.proxy.opened, other.proxy.opened], [1, 1]);
    answer();
    assert.equal((await Promise.all(answers)).length, 1201);
    assert.equal(calls(), 1201);
  });

  it("are no more requests when one comes again", async (t) => {
    const { handler, calls } = held();
    const { server, url } = await serve(t, handler, BEHIND_PROXY);
    const request = await requestOf(t, server);
    const talk = await Talk.open(t, url, { "x-forwarded-for": "1.1.1.1" });
    talk.socket.send(request);
    for (const [source, count] of [
      ["1.1.1.2", 1000],
      ["1.1.1.3", 23],
    ] as const) {
      const proxy = await TestProxy.start(t, url, source);
      const client = startClient(t, new TestMesh(server, proxy.url));
      for (let at = 0; at < count; at++) call(client, "", { idempotent: true }).catch(() => undefined);
    }
    await until("the source has as many as it may", () => calls() === 1024);
    talk.socket.send(request);
    assert.deepEqual([...(await talk.next()).subarray(0, 2)], [ANSWER, 1]);
    const another = await requestOf(t, server, "another");
    talk.socket.send(another);
    assert.equal(await talk.closed, 1013);
    assert.equal(calls(), 1024);
  });

  it("are bytes of messages that are not whole, as many as of bodies", async (t) => {
    const { server, url } = await serve(t, echo, BEHIND_PROXY);
    const partial = async (source: string, bytes: number): Promise<{ closed: Promise<unknown> }> => {
      const headers = { ...HANDSHAKE, "x-forwarded-for": source };
      const [, socket] = (await once(get(url.replace("ws:", "http:"), { headers }), "upgrade")) as [
        unknown,
        Socket,
      ];
      t.after(() => socket.destroy());
      socket.on("error", () => undefined);
      // A frame that announces a longest message, masked with zeros.
      const head = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
      head.writeUInt32BE(MAX_BODY, 6);
      socket.write(Buffer.concat([head, Buffer.alloc(bytes, 0x60)]));
      return { closed: new Promise((resolve) => socket.resume().once("close", resolve)) };
    };
    const [first, second] = [await partial("1.1.1.1", 12 * MIB), await partial("1.1.1.2", 12 * MIB)];
    await Promise.race([first.closed, second.closed]);
    const proxy = await TestProxy.start(t, url, "1.1.2.1");
    const client = startClient(t, new TestMesh(server, proxy.url));
    const payload = new Uint8Array(4 * MIB);
    const answer = await client.call(SERVICE, payload, { idempotent: true });
    assert.equal(answer.payload.length, payload.length);
  });

  it("are bytes that wait for whoever does not read them", async (t) => {
    const { handler, answer, calls } = heldAnswers();
    const { server } = startServer(t, handler, BEHIND_PROXY);
    const { http, url } = await listenForSockets(t);
    server.attach(http, "/rpc");
    const stalled = await TestProxy.start(t, url, "1.1.1.1");
    const client = startClient(t, new TestMesh(server, stalled.url));
    for (let at = 0; at < 60; at++)
      client.call(SERVICE, new Uint8Array(), { idempotent: true }).catch(() => undefined);
    await until("all are carried out", () => calls() === 60);
    stalled.stall();
    answer();
    const connections = promisify(http.getConnections.bind(http));
    await until("the server has broken the connection off", async () => (await connections()) === 0);
    const proxy = await TestProxy.start(t, url, "1.1.2.1");
    assert.match(await call(startClient(t, new TestMesh(server, proxy.url)), "ping"), /^ping/);
  });

  it("are bytes that wait, which count as long as they do", async (t) => {
    const { handler, answer, calls } = heldAnswers();
    const { server } = startServer(t, handler, BEHIND_PROXY);
    const { http, url } = await listenForSockets(t);
    server.attach(http, "/rpc");
    const connections = promisify(http.getConnections.bind(http));
    const proxies: TestProxy[] = [];
    let expected = 0;
    for (const [source, count] of [
      ["1.1.1.1", 31],
      ["1.1.2.1", 15],
      ["1.1.3.1", 20],
    ] as const) {
      const proxy = await TestProxy.start(t, url, source);
      proxies.push(proxy);
      const client = startClient(t, new TestMesh(server, proxy.url));
      for (let at = 0; at < count; at++)
        client.call(SERVICE, new Uint8Array(), { idempotent: true }).catch(() => undefined);
      expected += count;
      await until("all are carried out", () => calls() === expected);
    }
    for (const proxy of proxies) proxy.stall();
    answer();
    await until("the last has had more than is left", async () => (await connections()) === 2);
  });

  it("is time, of which a socket has little that brings no request", async (t) => {
    const { timers, fire } = manualTimers();
    const { server, url } = await serve(t, echo, { ...STATELESS, timers });
    const request = await requestOf(t, server);
    const talk = await Talk.open(t, url);
    const now = performance.now();
    let ahead_ms = 0;
    t.mock.method(performance, "now", () => now + ahead_ms);
    ahead_ms = 40_000;
    talk.socket.send(request);
    await talk.next();
    ahead_ms = 80_000;
    fire();
    talk.socket.send(request);
    await talk.next();
    talk.socket.ping();
    await once(talk.socket, "pong");
    ahead_ms = 150_000;
    fire();
    assert.equal(await talk.closed, 1000);
  });

  it("ends with the server", async (t) => {
    const { server, url } = await serve(t, echo);
    const talk = await Talk.open(t, url);
    server.close();
    assert.equal(await talk.closed, 1001);
    const refused = new Talk(url);
    assert.equal(await refused.closed, 1006);
  });
});
