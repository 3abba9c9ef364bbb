import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { describe, it, type TestContext } from "node:test";
import { createRpcRouter, type RpcRouter, type RpcRouterOptions } from "../src/entries/rpc-node.ts";
import type { RpcCallOptions } from "../src/rpc/call-options.ts";
import type { RpcClient } from "../src/rpc/client.ts";
import { endpointOf, ipPortOf } from "../src/rpc/endpoint.ts";
import type { RpcHandler } from "../src/rpc/handler.ts";
import { SERVICE, startClient, startServer, TestMesh } from "./rpc-support.ts";
import { until } from "./support.ts";

const LOOPBACK = { host: "127.0.0.1", port: 0 } as const;
const ROUTER_KEY: Uint8Array = new Uint8Array(32).fill(5);
const OTHER_KEY: Uint8Array = new Uint8Array(32).fill(6);

interface Replica {
  readonly address: string;
  readonly mesh: TestMesh;
}

async function startReplica(
  t: TestContext,
  handler: RpcHandler,
  routerKey: Uint8Array | undefined = ROUTER_KEY,
): Promise<Replica> {
  const { server } = startServer(t, handler, { idempotent: true, stateless: true, routerKey });
  const { address } = await server.listenUdp(LOOPBACK);
  return { address, mesh: new TestMesh(server, address) };
}

async function startRouter(
  t: TestContext,
  servers: readonly string[],
  options: Partial<RpcRouterOptions> = {},
): Promise<{ router: RpcRouter; address: string }> {
  const router = createRpcRouter({ routerKey: ROUTER_KEY, servers, log: () => undefined, ...options });
  t.after(() => router.close());
  return { router, ...(await router.listenUdp(LOOPBACK)) };
}

async function call(client: RpcClient, text: string, options: RpcCallOptions): Promise<string> {
  const { payload } = await client.call(SERVICE, new TextEncoder().encode(text), options);
  return new TextDecoder().decode(payload);
}

/** A handler that answers with the name of its replica. */
const named =
  (name: string): RpcHandler =>
  () =>
    new TextEncoder().encode(name);

/** A handler whose calls are answered one by one. */
function held(): { handler: RpcHandler; calls: PromiseWithResolvers<void>[] } {
  const calls: PromiseWithResolvers<void>[] = [];
  const handler: RpcHandler = async ({ payload }) => {
    const answered = Promise.withResolvers<void>();
    calls.push(answered);
    await answered.promise;
    return payload;
  };
  return { handler, calls };
}

describe("a router of the RPC", () => {
  for (const redirect of [false, true]) {
    it(`spreads calls over replicas, which ${redirect ? "clients are told of" : "answer directly"}`, async (t) => {
      const [one, other] = [await startReplica(t, named("one")), await startReplica(t, named("other"))];
      const { address } = await startRouter(t, [one.address, other.address], {
        select: "roundRobin",
        redirect,
      });
      const client = startClient(t, one.mesh);
      const answered = new Map<string, string>();
      for (let at = 0; at < 4; at++) {
        const { payload, server } = await client.call(SERVICE, new Uint8Array(), {
          server: address,
          idempotent: true,
        });
        answered.set(new TextDecoder().decode(payload), server);
      }
      assert.deepEqual(Object.fromEntries(answered), { one: one.address, other: other.address });
      assert.match(await call(client, "bound to one of them", { server: address }), /^(one|other)$/);
      assert.equal(one.mesh.asked, 1);
    });
  }

  it("is not whom a replica hears from: its clients are", async (t) => {
    const sources: string[] = [];
    const { address: server, mesh } = await startReplica(t, ({ payload, source }) => {
      sources.push(source);
      return payload;
    });
    const { address } = await startRouter(t, [server]);
    const client = startClient(t, mesh);
    await call(client, "through the router", { server: address, idempotent: true });
    await call(client, "directly", { server, idempotent: true });
    assert.equal(sources.length, 2);
    assert.equal(sources[0], sources[1]);
    assert.notEqual(sources[0], address);
  });

  it("passes long requests on, and answers do not pass it", async (t) => {
    const { address: server, mesh } = await startReplica(t, ({ payload }) => payload);
    const { address } = await startRouter(t, [server]);
    const payload = new Uint8Array(300_000).map((_, at) => at * 31 + (at >> 8));
    for (const idempotent of [true, false]) {
      const answer = await startClient(t, mesh).call(SERVICE, payload, { server: address, idempotent });
      assert.deepEqual(Buffer.from(answer.payload), Buffer.from(payload));
      assert.equal(answer.server, server);
    }
  });

  it("keeps calls beyond its bound until a replica has answered one", async (t) => {
    const { handler, calls } = held();
    const { address: server, mesh } = await startReplica(t, handler);
    const { address } = await startRouter(t, [server], { bound: 1 });
    const clients = [startClient(t, mesh), startClient(t, mesh)];
    const answers = clients.map((client, at) => call(client, `${at}`, { server: address, idempotent: true }));
    await until("the first call is carried out", () => calls.length === 1);
    calls[0]?.resolve();
    await Promise.race(answers);
    await until("the second one is", () => calls.length === 2);
    calls[1]?.resolve();
    assert.deepEqual(await Promise.all(answers), ["0", "1"]);
  });

  it("routes to the replicas that it is told, and says that it has none", async (t) => {
    const [one, other] = [await startReplica(t, named("one")), await startReplica(t, named("other"))];
    const { router, address } = await startRouter(t, [one.address]);
    const client = startClient(t, one.mesh);
    const options = { server: address, idempotent: true };
    assert.equal(await call(client, "", options), "one");
    router.setServers([other.address]);
    assert.equal(await call(client, "", options), "other");
    router.setServers([]);
    await assert.rejects(call(client, "", options), { name: "NoProvider" });
  });

  it("whose key is another one is not heard, nor is one of a replica that has none", async (t) => {
    let calls = 0;
    const counting: RpcHandler = ({ payload }) => {
      calls++;
      return payload;
    };
    for (const [replicaKey, routerKey] of [
      [ROUTER_KEY, OTHER_KEY],
      [undefined, ROUTER_KEY],
    ] as const) {
      const { server } = startServer(t, counting, {
        idempotent: true,
        stateless: true,
        ...(replicaKey === undefined ? {} : { routerKey: replicaKey }),
      });
      const { address: replica } = await server.listenUdp(LOOPBACK);
      const { address } = await startRouter(t, [replica], { routerKey });
      const client = startClient(t, new TestMesh(server, replica));
      const options = { server: address, idempotent: true, timeout_ms: 300 };
      await assert.rejects(call(client, "forged", options), { name: "TimedOut" });
      assert.equal(await call(client, "direct", { server: replica, idempotent: true }), "direct");
    }
    assert.equal(calls, 2);
  });

  it("is disturbed by no datagram that anybody makes up", async (t) => {
    const { address: server, mesh } = await startReplica(t, ({ payload }) => payload);
    const { address } = await startRouter(t, [server]);
    const { port } = ipPortOf(address) ?? assert.fail();
    const stranger = createSocket("udp4");
    t.after(() => stranger.close());
    const nowhere = endpointOf({ ip: "127.0.0.1", port: 0 });
    for (const bytes of [0, 1, 17, 200, 1200, 9000]) {
      for (const form of [0, 0x60, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0xff]) {
        const datagram = Buffer.alloc(bytes, nowhere);
        if (bytes > 1) datagram.set([form, 0]);
        stranger.send(datagram, port, "127.0.0.1");
      }
    }
    const client = startClient(t, mesh);
    assert.equal(await call(client, "ping", { server: address, idempotent: true }), "ping");
  });

  it("says what is wrong with its options", async (t) => {
    const servers = ["192.0.2.1:7400"];
    const wrong: [Partial<RpcRouterOptions>, string][] = [
      [{ routerKey: new Uint8Array(31) }, "BadConfig"],
      [{ servers: ["service.example:7400"] }, "BadAddress"],
      [{ servers: "192.0.2.1:7400" as unknown as string[] }, "BadConfig"],
      [{ bound: 0 }, "BadConfig"],
      [{ select: "fastest" as "random" }, "BadConfig"],
    ];
    for (const [options, name] of wrong)
      assert.throws(() => createRpcRouter({ routerKey: ROUTER_KEY, servers, ...options }), { name });
    const url = { routerKey: ROUTER_KEY, servers: ["https://service.example/rpc"] };
    assert.throws(() => createRpcRouter(url), /is no address such as 192\.0\.2\.1:7400$/);
    assert.throws(() => startServer(t, named("none"), { routerKey: new Uint8Array(33) }), {
      name: "BadConfig",
    });
    const { router } = await startRouter(t, servers);
    router.close();
    await assert.rejects(router.listenUdp(LOOPBACK), { name: "Cancelled" });
  });
});
