import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import type { Handler } from "../src/driver/serve.ts";
import type { NodeMesh } from "../src/entries/node.ts";
import { createRpcClient, type RpcClient } from "../src/entries/rpc-node.ts";
import type { RpcServerOptions } from "../src/rpc/server.ts";
import { startFetchServer, UdpRelay, UNOWNED, URL_OF_SERVICE } from "./rpc-fetch-support.ts";
import { bytes, echo, NETWORK, SERVICE, startServer } from "./rpc-support.ts";
import { leaf, member, until } from "./support.ts";

interface Ring {
  readonly bootstrap: string;
  readonly caller: NodeMesh;
  /** Starts another node. */
  readonly start: () => Promise<NodeMesh>;
}

/** A ring with who calls, who is told when sessions end. */
async function startRing(t: TestContext, ended: (peer: string) => void = () => undefined): Promise<Ring> {
  const { mesh: first, bootstrap } = await member({ network: NETWORK });
  t.after(() => first.close());
  const started = async (mesh: Promise<NodeMesh>): Promise<NodeMesh> => {
    const node = await mesh;
    t.after(() => node.close());
    return node;
  };
  const caller = await started(
    leaf(bootstrap, {
      network: NETWORK,
      onEvent: (event) => event.type === "peer-disconnected" && ended(event.peer),
    }),
  );
  const start = (): Promise<NodeMesh> =>
    started(member({ network: NETWORK, bootstrap }).then(({ mesh }) => mesh));
  return { bootstrap, caller, start };
}

interface Held {
  readonly caller: NodeMesh;
  readonly client: RpcClient;
  readonly relay: UdpRelay;
  readonly start: Ring["start"];
  /** How each request came. */
  readonly ways: string[];
}

/** A node that holds a ticket of a service, whose replica has shown that it is there, and has no session with it any more. */
async function holdTicket(
  t: TestContext,
  answer: Handler = () => new Response("answer"),
  options: Partial<RpcServerOptions> = {},
): Promise<Held> {
  const ended: string[] = [];
  const { caller, start } = await startRing(t, (peer) => ended.push(peer));
  const ways: string[] = [];
  const handler: Handler = (request, context) => {
    ways.push(`${request.method} ${context.assurance}`);
    return answer(request, context);
  };
  const { server, address } = await startFetchServer(t, handler, options);
  const relay = await UdpRelay.start(t, address);
  const provider = await start();
  await provider.serve(SERVICE, server.tickets(relay.address), UNOWNED);
  const client = createRpcClient({ mesh: caller, lookup: UNOWNED, forFetch: true });
  t.after(() => client.close());
  await (await caller.fetch(URL_OF_SERVICE, UNOWNED)).text();
  await until("the replica has shown that it is there", () => relay.down > 0);
  await (await caller.fetch(URL_OF_SERVICE, UNOWNED)).text();
  assert.deepEqual(ways.splice(0), ["GET session", "GET session"], "while a session is up");
  const { id } = provider;
  await provider.close();
  await until("the session has ended", () => ended.includes(id));
  await until("the replica is older than what is sent to it", async () => {
    relay.reset();
    await (await caller.fetch(URL_OF_SERVICE, UNOWNED)).text();
    return relay.up === 1;
  });
  relay.reset();
  ways.splice(0);
  return { caller, client, relay, start, ways };
}

describe("fetch of a mesh", () => {
  it("goes by RPC where a ticket is held and no session is up, in one datagram each way", async (t) => {
    const { caller, relay, ways } = await holdTicket(t);
    const { fetch } = caller.service(SERVICE, UNOWNED);
    for (const method of ["GET", "DELETE", "POST"]) {
      // A busy machine sends one again, and is told that it has arrived.
      await until(`${method} is one datagram each way`, async () => {
        relay.reset();
        const init = method === "POST" ? { method, body: "ping" } : { method };
        assert.equal(await (await fetch("/a?b", init)).text(), "answer");
        return relay.up === 1 && relay.down === 1;
      });
      assert.deepEqual([...new Set(ways.splice(0))], [`${method} ticket`]);
    }
    await assert.rejects(caller.fetch(URL_OF_SERVICE, { ...UNOWNED, redirect: "follow" }), {
      name: "BadConfig",
    });
  });

  it("goes by session for what only that gives", async (t) => {
    const { caller, relay } = await holdTicket(t);
    const stream = new ReadableStream({
      start: (controller) => {
        controller.enqueue(bytes("x"));
        controller.close();
      },
    });
    const inits: RequestInit[] = [
      { method: "POST", body: stream, duplex: "half" } as RequestInit,
      { method: "POST", body: new Uint8Array(64 * 1024 + 1) },
    ];
    for (const init of inits) await assert.rejects(caller.fetch(URL_OF_SERVICE, { ...UNOWNED, ...init }));
    const only = [
      { peer: "ab".repeat(32) },
      { key: "a" },
      { policy: "random" },
      { forwardSecret: true },
    ] as const;
    for (const options of only) {
      await assert.rejects(caller.fetch(URL_OF_SERVICE, { ...UNOWNED, ...options }));
    }
    const other = { owner: "cd".repeat(32) };
    await assert.rejects(caller.fetch(URL_OF_SERVICE, other), { name: "NoProvider" });
    await assert.rejects(
      caller.fetch(`${URL_OF_SERVICE}/.well-known/selfsame-rpc`, { ...UNOWNED, method: "POST" }),
    );
    assert.equal(relay.up, 0);
    await (await caller.fetch(URL_OF_SERVICE, UNOWNED)).text();
    assert.equal(relay.up, 1);
  });

  it("is answered in a session when the replica gives no sign of life", async (t) => {
    const { caller, relay, start, ways } = await holdTicket(t);
    const next = await start();
    await next.serve(SERVICE, (request) => new Response(`next ${request.method}`), UNOWNED);
    relay.isBroken = true;
    const begun_ms = performance.now();
    const init = { ...UNOWNED, timeout_ms: 10_000 };
    assert.equal(await (await caller.fetch(URL_OF_SERVICE, init)).text(), "next GET");
    assert.ok(performance.now() - begun_ms < 8_000);
    assert.ok(relay.up > 1);
    assert.deepEqual(ways, []);
    const { up } = relay;
    assert.equal(await (await caller.fetch(URL_OF_SERVICE, { ...init, method: "POST" })).text(), "next POST");
    assert.equal(relay.up, up, "the replica is left alone");
  });

  it("asks a replica for a sign of life before a request that must not be sent twice", async (t) => {
    const { caller, relay, start, ways } = await holdTicket(t);
    const next = await start();
    await next.serve(SERVICE, () => new Response("next"), UNOWNED);
    const { now } = performance;
    let later_ms = 31_000;
    t.mock.method(performance, "now", () => now.call(performance) + later_ms);
    const init = { ...UNOWNED, method: "POST", body: "once" };
    assert.equal(await (await caller.fetch(URL_OF_SERVICE, init)).text(), "answer");
    assert.ok(relay.up >= 2);
    later_ms += 31_000;
    relay.isBroken = true;
    const begun_ms = now.call(performance);
    const signal = AbortSignal.abort(new Error("enough"));
    await assert.rejects(caller.fetch(URL_OF_SERVICE, { ...init, signal }), { message: "enough" });
    await assert.rejects(caller.fetch(URL_OF_SERVICE, { ...init, timeout_ms: 50 }), { name: "Deadline" });
    assert.ok(now.call(performance) - begun_ms < 1_000, "nobody waits for the sign of life");
    assert.equal(await (await caller.fetch(URL_OF_SERVICE, init)).text(), "next");
    assert.deepEqual(ways, ["POST ticket"]);
  });

  it("goes by session while many answers of a service have not ended", async (t) => {
    const pull = (controller: ReadableStreamDefaultController): void =>
      controller.enqueue(new Uint8Array(20_000));
    const { caller, start, ways } = await holdTicket(
      t,
      ({ url }) => new Response(url.endsWith("/long") ? new ReadableStream({ pull }) : "short"),
    );
    const ask = (path: string): Promise<Response> => caller.fetch(URL_OF_SERVICE + path, UNOWNED);
    const open = await Promise.all(Array.from({ length: 24 }, () => ask("/long")));
    assert.equal(ways.length, 24);
    for (const { body } of open.splice(0, 2)) await body?.cancel();
    open.push(await ask("/long"), await ask("/long"));
    assert.equal(ways.length, 26);
    const next = await start();
    await next.serve(SERVICE, () => new Response("next"), UNOWNED);
    assert.equal(await (await ask("")).text(), "next");
    for (const { body } of open) await body?.cancel();
  });

  it("sends a request that must not be sent twice by session to a service that keeps nothing", async (t) => {
    const { caller, relay, start, ways } = await holdTicket(t, undefined, { stateless: true });
    const next = await start();
    await next.serve(SERVICE, () => new Response("next"), UNOWNED);
    assert.equal(await (await caller.fetch(URL_OF_SERVICE, UNOWNED)).text(), "answer");
    relay.reset();
    const init = { ...UNOWNED, method: "POST", body: "once" };
    assert.equal(await (await caller.fetch(URL_OF_SERVICE, init)).text(), "next");
    assert.ok(relay.up > 0, "it was refused");
    assert.deepEqual(ways, ["GET ticket"]);
  });

  it("never repeats a request that may have been carried out", async (t) => {
    const begun = Promise.withResolvers<void>();
    const { caller, relay, start, ways } = await holdTicket(t, ({ method }) => {
      if (method === "POST") relay.isBroken = true;
      begun.resolve();
      return new Response();
    });
    const next = await start();
    let asked = 0;
    await next.serve(
      SERVICE,
      () => {
        asked++;
        return new Response("next");
      },
      UNOWNED,
    );
    await caller.fetch(URL_OF_SERVICE, UNOWNED);
    const init = { ...UNOWNED, method: "POST", body: "once", timeout_ms: 3_000 };
    await assert.rejects(caller.fetch(URL_OF_SERVICE, init), { name: "OutcomeUnknown" });
    assert.deepEqual(ways, ["GET ticket", "POST ticket"]);
    assert.equal(asked, 0);
    const retried = { ...UNOWNED, timeout_ms: 10_000 };
    assert.equal(await (await caller.fetch(URL_OF_SERVICE, retried)).text(), "next");
  });

  it("tries another provider of an answer that one may do better", async (t) => {
    const { caller, start } = await holdTicket(t, ({ method }) =>
      method === "GET" ? new Response("", { status: 503 }) : new Response("", { status: 502 }),
    );
    assert.equal((await caller.fetch(URL_OF_SERVICE, UNOWNED)).status, 503, "there is no other one");
    const next = await start();
    await next.serve(SERVICE, () => new Response("next"), UNOWNED);
    assert.equal((await caller.fetch(URL_OF_SERVICE, { ...UNOWNED, method: "POST" })).status, 502);
    assert.equal((await caller.fetch(URL_OF_SERVICE, UNOWNED)).status, 200);
  });

  it("waits for a handler that takes long, and ends it with its caller's signal", async (t) => {
    const signals: AbortSignal[] = [];
    const { caller, relay, start, ways } = await holdTicket(t, ({ signal, url }) => {
      signals.push(signal);
      if (!url.endsWith("/slow")) return new Response();
      return new Promise((resolve) => setTimeout(() => resolve(new Response("slow")), 3_000));
    });
    assert.equal(await (await caller.fetch(`${URL_OF_SERVICE}/slow`, UNOWNED)).text(), "slow");
    assert.deepEqual(ways, ["GET ticket"]);
    assert.ok(relay.down > 1, "signs of life");
    const abort = new AbortController();
    const asking = caller.fetch(`${URL_OF_SERVICE}/slow`, { ...UNOWNED, signal: abort.signal });
    await until("the handler is asked", () => ways.length === 2);
    abort.abort(new Error("enough"));
    await assert.rejects(asking, { message: "enough" });
    await until("the handler hears of it", () => signals.at(-1)?.aborted === true);
    const late = caller.fetch(`${URL_OF_SERVICE}/slow`, { ...UNOWNED, timeout_ms: 300 });
    await assert.rejects(late, { name: "Deadline" });
    const next = await start();
    await next.serve(SERVICE, () => new Response("next"), UNOWNED);
    assert.equal(await (await caller.fetch(URL_OF_SERVICE, UNOWNED)).text(), "next");
  });

  it("goes on in a session when the client is closed whose RPC it takes", async (t) => {
    const { caller, client, start, ways } = await holdTicket(t, ({ url }) =>
      url.endsWith("/slow") ? new Promise(() => undefined) : new Response(),
    );
    const next = await start();
    await next.serve(SERVICE, ({ method }) => new Response(`next ${method}`), UNOWNED);
    const asking = ["GET", "POST"].map(async (method) => {
      const answer = await caller.fetch(`${URL_OF_SERVICE}/slow`, { ...UNOWNED, method });
      return answer.text();
    });
    const outcome = Promise.allSettled(asking);
    await until("the handler is asked", () => ways.length === 2);
    client.close();
    const [read, written] = await outcome;
    assert.deepEqual(read, { status: "fulfilled", value: "next GET" });
    assert.ok(written?.status === "rejected");
    assert.equal(written.reason.name, "OutcomeUnknown");
  });

  it("asks a service for a ticket once that has none, or carries no HTTP", async (t) => {
    const { caller, start } = await startRing(t);
    const provider = await start();
    const paths: string[] = [];
    const plain: Handler = (request) => {
      paths.push(new URL(request.url).pathname);
      return new Response(null, { status: 404 });
    };
    await provider.serve("plain", plain, UNOWNED);
    let calls = 0;
    const { server } = startServer(t, (request) => {
      calls++;
      return echo(request);
    });
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    const tickets = server.tickets(address);
    await provider.serve(
      SERVICE,
      (request, context) => {
        paths.push(new URL(request.url).pathname);
        return tickets(request, context);
      },
      UNOWNED,
    );
    const client = createRpcClient({ mesh: caller, lookup: UNOWNED, forFetch: true });
    t.after(() => client.close());
    for (const name of ["plain", SERVICE]) {
      for (let at = 0; at < 5; at++) await caller.fetch(`https://${name}.mesh/x`, UNOWNED);
      await until("it is asked for a ticket", () => paths.includes("/.well-known/selfsame-rpc"));
      for (let at = 0; at < 5; at++) await caller.fetch(`https://${name}.mesh/x`, UNOWNED);
      const asked = paths.splice(0).filter((path) => path !== "/x");
      assert.deepEqual(asked, ["/.well-known/selfsame-rpc"], name);
    }
    assert.equal(calls, 0);
  });

  it("takes the RPC of one client at a time", async (t) => {
    const { caller } = await startRing(t);
    const options = { mesh: caller, lookup: UNOWNED, forFetch: true };
    const first = createRpcClient(options);
    assert.throws(() => createRpcClient(options), { name: "BadConfig", message: /another client/ });
    first.close();
    createRpcClient(options).close();
    assert.throws(() => createRpcClient({ ...options, forwardSecret: true }), { name: "BadConfig" });
  });
});
