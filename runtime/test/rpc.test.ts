import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { describe, it, type TestContext } from "node:test";
import type { RpcCallOptions } from "../src/rpc/call-options.ts";
import type { RpcClient } from "../src/rpc/client.ts";
import { endpointOf, ipPortOf } from "../src/rpc/endpoint.ts";
import { type RpcHandler, RpcRefusal } from "../src/rpc/handler.ts";
import type { NodeRpcServer } from "../src/rpc/node-server.ts";
import {
  CALLER,
  listenForSockets,
  SERVICE,
  serveHttp,
  serveSockets,
  startClient,
  startServer,
  TestMesh,
} from "./rpc-support.ts";
import { freeUdpPort, until } from "./support.ts";

const MEGABYTE = 1024 * 1024;
const WAYS = ["udp", "http", "websocket"] as const;
type Way = (typeof WAYS)[number];

interface Pair {
  readonly client: RpcClient;
  readonly server: NodeRpcServer;
  readonly mesh: TestMesh;
}

async function start(t: TestContext, way: Way, handler: RpcHandler, idempotent = true): Promise<Pair> {
  // Tickets tell their time in seconds: one of the second in which a server began would be taken for older than the server.
  const { server } = startServer(t, handler, { idempotent, stateless: idempotent });
  const address = await addressOf(t, server, way);
  const mesh = new TestMesh(server, address);
  return { server, mesh, client: startClient(t, mesh) };
}

/** A server that can be started anew at its place. */
async function startAnew(
  t: TestContext,
  way: Way,
  handler: RpcHandler,
): Promise<{ client: RpcClient; restart: () => Promise<void> }> {
  const begin = (): NodeRpcServer => startServer(t, handler, { idempotent: true }).server;
  let server = begin();
  const port = way === "udp" ? await freeUdpPort() : 0;
  const { http, url } = await listenForSockets(t, (request, origin) => server.fetch(request, origin));
  const addresses = { udp: `127.0.0.1:${port}`, http: url.replace("ws:", "http:"), websocket: url };
  const listen = async (): Promise<void> => {
    if (way === "udp") await server.listenUdp({ host: "127.0.0.1", port });
    else server.attach(http, "/rpc");
  };
  await listen();
  const mesh = new TestMesh(server, addresses[way]);
  const restart = async (): Promise<void> => {
    server.close();
    server = begin();
    mesh.server = server;
    await listen();
  };
  return { client: startClient(t, mesh), restart };
}

async function addressOf(t: TestContext, server: NodeRpcServer, way: Way): Promise<string> {
  if (way === "http") return serveHttp(t, (request, origin) => server.fetch(request, origin));
  if (way === "websocket") return serveSockets(t, server);
  return (await server.listenUdp({ host: "127.0.0.1", port: 0 })).address;
}

function call(client: RpcClient, text: string, options: RpcCallOptions = {}): Promise<string> {
  return client
    .call(SERVICE, new TextEncoder().encode(text), options)
    .then(({ payload }) => new TextDecoder().decode(payload));
}

const echo: RpcHandler = ({ payload }) => payload;

for (const way of WAYS) {
  describe(`RPC over ${way}`, () => {
    it("answers a call with one ticket for all", async (t) => {
      const { client, mesh } = await start(t, way, ({ payload, caller, isIdempotent }) => {
        assert.equal(caller, CALLER);
        assert.ok(isIdempotent);
        return payload;
      });
      assert.equal(await call(client, "ping", { idempotent: true }), "ping");
      const { server } = await client.call(SERVICE, new Uint8Array(), { idempotent: true });
      assert.equal(server, mesh.addresses[0]);
      assert.equal(mesh.asked, 1);
    });

    it("carries a call that is not idempotent out once", async (t) => {
      let calls = 0;
      const handler: RpcHandler = async ({ payload, isIdempotent }) => {
        assert.ok(!isIdempotent);
        calls++;
        return payload;
      };
      const { client } = await start(t, way, handler, false);
      assert.equal(await call(client, "once"), "once");
      assert.equal(
        await call(client, "idempotent for the caller alone", { idempotent: true }),
        "idempotent for the caller alone",
      );
      assert.equal(calls, 2);
    });

    it("takes a megabyte both ways", async (t) => {
      const { client } = await start(t, way, echo);
      const payload = new Uint8Array(MEGABYTE).map((_, at) => at * 31 + (at >> 8));
      const answer = await client.call(SERVICE, payload, { idempotent: true });
      assert.deepEqual(Buffer.from(answer.payload), Buffer.from(payload));
    });

    it("tells the caller what the handler refuses, and when it fails", async (t) => {
      const { client } = await start(t, way, async ({ payload }) => {
        if (payload.length === 0) throw new RpcRefusal("NotGranted");
        throw new Error("broken");
      });
      await assert.rejects(call(client, "", { idempotent: true }), { name: "NotGranted" });
      await assert.rejects(call(client, "x", { idempotent: true }), { name: "HandlerFailed" });
    });

    it("tells the handler that the caller has given up", async (t) => {
      const begun = Promise.withResolvers<AbortSignal>();
      const { client } = await start(t, way, ({ signal }) => {
        begun.resolve(signal);
        return new Promise(() => undefined);
      });
      const abort = new AbortController();
      const answer = call(client, "slow", { signal: abort.signal, idempotent: true });
      const cancelled = new Promise((resolve) =>
        begun.promise.then((signal) => signal.addEventListener("abort", resolve)),
      );
      await begun.promise;
      abort.abort(new Error("enough"));
      await assert.rejects(answer, { message: "enough" });
      await cancelled;
    });

    it("does not stop what a handler has left running when it answers", async (t) => {
      const signals: AbortSignal[] = [];
      const scratch = new Uint8Array(1);
      const { client } = await start(t, way, ({ payload, signal }) => {
        signals.push(signal);
        scratch.set(payload);
        return scratch;
      });
      const texts = [..."abcdefgh"];
      assert.deepEqual(
        await Promise.all(texts.map((text) => call(client, text, { idempotent: true }))),
        texts,
      );
      assert.ok(signals.every(({ aborted }) => !aborted));
    });

    it("ends a call whose handler takes too long", async (t) => {
      const { client } = await start(t, way, () => new Promise(() => undefined));
      const error = await call(client, "slow", { timeout_ms: 300, idempotent: true }).catch(
        (error: Error) => error.name,
      );
      // The server's answer that the deadline has passed may be faster than the client's timer.
      assert.ok(error === "TimedOut" || error === "Deadline", String(error));
    });

    it("does not know the outcome of a call that is not answered", async (t) => {
      const begun = Promise.withResolvers<void>();
      const { client, server } = await start(t, way, () => {
        begun.resolve();
        return new Promise(() => undefined);
      });
      const answer = call(client, "slow", { timeout_ms: 400 });
      answer.catch(() => undefined);
      await begun.promise;
      server.close();
      await assert.rejects(answer, { name: "OutcomeUnknown" });
    });

    it("goes on when a replica that shares the key takes its place", async (t) => {
      const { client, server, mesh } = await start(t, way, echo);
      assert.equal(await call(client, "first", { idempotent: true }), "first");
      const { server: next } = startServer(t, async () => new TextEncoder().encode("next"), {
        idempotent: true,
      });
      const address = await addressOf(t, next, way);
      server.close();
      mesh.server = next;
      assert.equal(await call(client, "again", { idempotent: true, server: address }), "next");
      assert.equal(await call(client, "bound", { server: address }), "next");
      assert.equal(mesh.asked, 1, "the ticket opens at the other replica");
    });

    it("does not repeat a call that was bound to a server before its restart", async (t) => {
      let calls = 0;
      const handler: RpcHandler = ({ payload }) => {
        calls++;
        return payload;
      };
      const { client, restart } = await startAnew(t, way, handler);
      assert.equal(await call(client, "first"), "first");
      await restart();
      await assert.rejects(call(client, "bound to the first life"), { name: "OutcomeUnknown" });
      assert.equal(await call(client, "idempotent", { idempotent: true }), "idempotent");
      await restart();
      assert.equal(await call(client, "idempotent again", { idempotent: true }), "idempotent again");
      assert.equal(await call(client, "last"), "last");
      assert.equal(calls, 4);
    });

    it("gets a new ticket when a replica does not open its own", async (t) => {
      const { client, mesh } = await start(t, way, echo);
      assert.equal(await call(client, "first", { idempotent: true }), "first");
      const replica = async (rotations: number): Promise<string> => {
        const { server } = startServer(t, echo, { idempotent: true });
        for (let at = 0; at < rotations; at++) await server.rotateTicketKeys();
        return addressOf(t, server, way);
      };
      assert.equal(
        await call(client, "previous key", { server: await replica(way === "udp" ? 0 : 1) }),
        "previous key",
      );
      assert.equal(mesh.asked, 1);
      await mesh.server.setTicketKey(new Uint8Array(32).fill(8));
      const { server: changed } = startServer(t, echo, {
        ticketKey: new Uint8Array(32).fill(8),
        idempotent: true,
      });
      const address = await addressOf(t, changed, way);
      assert.equal(await call(client, "other key", { idempotent: true, server: address }), "other key");
      assert.equal(mesh.asked, 2);
    });

    it("makes many calls at a time", async (t) => {
      const { client } = await start(t, way, async ({ payload }) => payload);
      const texts = Array.from({ length: 200 }, (_, at) => `call ${at}`);
      assert.deepEqual(
        await Promise.all(texts.map((text) => call(client, text, { idempotent: true }))),
        texts,
      );
    });
  });
}

describe("a port of the RPC", () => {
  it("is disturbed by no datagram that anybody makes up", async (t) => {
    const { client, mesh } = await start(t, "udp", echo);
    const { port } = ipPortOf(mesh.addresses[0] ?? "") ?? assert.fail();
    const stranger = createSocket("udp4");
    t.after(() => stranger.close());
    let answers = 0;
    stranger.on("message", (answer) => {
      answers++;
      assert.ok(answer.length <= 200, "no answer is longer than what came");
    });
    for (const bytes of [0, 1, 17, 200, 1200, 9000, 60_000]) {
      for (const form of [0, 0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0xff]) {
        const datagram = Buffer.alloc(bytes, 0x60);
        if (bytes > 1) datagram.set([form, 0]);
        stranger.send(datagram, port, "127.0.0.1");
      }
    }
    await until("a stranger's request was rejected", () => answers > 0);
    assert.equal(await call(client, "ping", { idempotent: true }), "ping");
  });

  it("that a router names and nothing can be sent to ends the call alone", async (t) => {
    const { client } = await start(t, "udp", echo);
    const router = createSocket("udp4");
    t.after(() => router.close());
    router.bind(0, "127.0.0.1");
    await once(router, "listening");
    // A redirect to port 0: the low half of the counter, which a request names behind its ticket or session, and the tag.
    router.on("message", (request, { port }) => {
      const nowhere = endpointOf({ ip: "127.0.0.1", port: 0 });
      const at = request[0] === 0x60 ? 94 : 10;
      const redirect = [[0x66], request.subarray(at, at + 4), request.subarray(-16), nowhere];
      router.send(Buffer.concat(redirect.map((part) => Uint8Array.from(part))), port, "127.0.0.1");
    });
    const server = `127.0.0.1:${router.address().port}`;
    assert.equal(await call(client, "ping", { idempotent: true }), "ping");
    const astray = call(client, "ping", { idempotent: true, server, timeout_ms: 300 });
    await assert.rejects(astray, { name: "TimedOut" });
    assert.equal(await call(client, "ping", { idempotent: true }), "ping");
  });
});

describe("a refusal", () => {
  it("names the code that it does not know", () => {
    const refuse = () => new RpcRefusal("Forbidden" as "NotGranted", "not you");
    assert.throws(refuse, { name: "BadConfig", message: /such as NotGranted \(got Forbidden\)/ });
  });
});
