import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { CborEncoder } from "../src/codec/cbor.ts";
import { MeshError } from "../src/codec/code.ts";
import type { LogRecord } from "../src/driver/log.ts";
import type { CallContext } from "../src/driver/serve.ts";
import type { NodeMesh } from "../src/entries/node.ts";
import {
  createRpcClient,
  type RpcClient,
  type RpcHandler,
  RpcRefusal,
  type RpcSessionOptions,
  rpcInSession,
} from "../src/entries/rpc-node.ts";
import { MAX_MESSAGE } from "../src/rpc/limits.ts";
import { decodeTicket, encodeInSession } from "../src/rpc/ticket.ts";
import { held } from "./rpc-sockets.ts";
import {
  bytes,
  echo,
  NETWORK,
  pair,
  SERVICE,
  startClient,
  startServer,
  TestMesh,
  textOf,
} from "./rpc-support.ts";
import { member, until } from "./support.ts";

const CALL_URL = `https://${SERVICE}.mesh/.well-known/selfsame-rpc/call`;
const TICKET_URL = `https://${SERVICE}.mesh/.well-known/selfsame-rpc`;
const UNOWNED = { unowned: true };
const CALL_HEADERS = { "selfsame-rpc-timeout": "20000" };
/** Fields of the answers to calls. */
const OF_CALLS = { "content-type": "application/octet-stream" };

/** A client in a mesh whose service takes calls in sessions alone. */
async function startInSession(
  t: TestContext,
  options: RpcSessionOptions,
): Promise<{ client: RpcClient; provider: NodeMesh; caller: NodeMesh; bootstrap: string }> {
  const meshes = await pair(t);
  await meshes.provider.serve(SERVICE, rpcInSession({ log: () => undefined, ...options }), UNOWNED);
  const client = createRpcClient({ mesh: meshes.caller, lookup: UNOWNED });
  t.after(() => client.close());
  return { client, ...meshes };
}

describe("what stands in place of a ticket", () => {
  it("has one encoding", () => {
    const whole = encodeInSession();
    assert.equal(decodeTicket(whole), "session");
    const encoder = (length: number): CborEncoder => new CborEncoder().array(length);
    const wrong = [
      whole.slice(0, -1),
      new Uint8Array([...whole, 0]),
      encoder(2).uint(9).null().finish(),
      encoder(2).uint(1).bool(false).finish(),
      encoder(3).uint(1).null().null().finish(),
      encoder(1).uint(1).finish(),
    ];
    for (const bytes of wrong) assert.throws(() => decodeTicket(bytes), { name: "BadMessage" });
  });
});

describe("calls in sessions of the mesh", () => {
  it("are made where the service gives out no tickets", async (t) => {
    const seen: unknown[] = [];
    const handler: RpcHandler = ({ payload, caller, source, isIdempotent, timeout_ms }) => {
      seen.push({ caller, source, isIdempotent, isInTime: timeout_ms > 0 && timeout_ms <= 5000 });
      return payload;
    };
    const { client, caller } = await startInSession(t, { handler, idempotent: true });
    for (const idempotent of [false, true]) {
      const answer = await client.call(SERVICE, bytes("ping"), { idempotent, timeout_ms: 5000 });
      assert.deepEqual([textOf(answer), answer.server], ["ping", `https://${SERVICE}.mesh`]);
    }
    const call = { caller: caller.id, source: "[::]:0", isInTime: true };
    assert.deepEqual(seen, [
      { ...call, isIdempotent: false },
      { ...call, isIdempotent: true },
    ]);
  });

  it("take as much as other calls, and no more", async (t) => {
    const { client, caller } = await startInSession(t, { handler: echo });
    const payload = new Uint8Array(MAX_MESSAGE).map((_, at) => at * 31 + (at >> 8));
    const answer = await client.call(SERVICE, payload);
    assert.ok(Buffer.from(answer.payload).equals(payload));
    const response = await caller.fetch(CALL_URL, {
      ...UNOWNED,
      method: "POST",
      headers: { "selfsame-rpc-timeout": "5000" },
      body: new Uint8Array(MAX_MESSAGE + 1),
    });
    assert.equal(response.status, 413);
    await response.body?.cancel();
  });

  it("are made of a service with tickets, if the caller insists", async (t) => {
    const sources: string[] = [];
    const { server } = startServer(t, ({ payload, source }) => {
      sources.push(source);
      return payload;
    });
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    const { provider, caller } = await pair(t);
    await provider.serve(SERVICE, server.tickets(address), UNOWNED);
    const client = createRpcClient({ mesh: caller, lookup: UNOWNED });
    t.after(() => client.close());
    const insisting = createRpcClient({ mesh: caller, lookup: UNOWNED, forwardSecret: true });
    t.after(() => insisting.close());
    assert.equal(
      (await client.call(SERVICE, bytes("a"), { forwardSecret: true })).server,
      `https://${SERVICE}.mesh`,
    );
    assert.equal((await insisting.call(SERVICE, bytes("b"))).server, `https://${SERVICE}.mesh`);
    const sealed = { forwardSecret: false, namesReplica: true };
    assert.equal((await insisting.call(SERVICE, bytes("c"), sealed)).server, address);
    assert.deepEqual([sources[0], sources[1], sources[2] === "[::]:0"], ["[::]:0", "[::]:0", false]);
    const both = client.call(SERVICE, bytes("d"), { forwardSecret: true, server: address });
    await assert.rejects(both, { name: "BadConfig" });
    server.close();
    await assert.rejects(insisting.call(SERVICE, bytes("e")), { name: "TooManyRequests" });
  });

  it("tell what the handler refuses, when it fails and when it is late", async (t) => {
    const records: LogRecord[] = [];
    const handler: RpcHandler = async ({ payload }) => {
      if (payload.length === 0) throw new RpcRefusal("NotGranted");
      if (payload.length === 1) throw new Error("broken");
      return payload.length === 2 ? ("no bytes" as never) : new Promise(() => undefined);
    };
    const log = (record: LogRecord): void => void records.push(record);
    const { client } = await startInSession(t, { handler, idempotent: true, log });
    for (const idempotent of [false, true]) {
      await assert.rejects(client.call(SERVICE, bytes(""), { idempotent }), { name: "NotGranted" });
      await assert.rejects(client.call(SERVICE, bytes("x"), { idempotent }), { name: "HandlerFailed" });
      await assert.rejects(client.call(SERVICE, bytes("xx"), { idempotent }), { name: "HandlerFailed" });
    }
    assert.equal(records.filter(({ text }) => text.includes("broken")).length, 2);
    const late = (idempotent: boolean): Promise<string> =>
      client.call(SERVICE, bytes("slow"), { idempotent, timeout_ms: 300 }).then(textOf, ({ name }) => name);
    // The service's answer that the deadline has passed may be faster than the client's timer.
    assert.match(await late(false), /^(OutcomeUnknown|Deadline)$/);
    assert.match(await late(true), /^(TimedOut|Deadline)$/);
  });

  it("tell the handler that the caller has given up", async (t) => {
    const begun = Promise.withResolvers<AbortSignal>();
    const handler: RpcHandler = ({ signal }) => {
      begun.resolve(signal);
      return new Promise(() => undefined);
    };
    const { client } = await startInSession(t, { handler });
    const abort = new AbortController();
    const answer = client.call(SERVICE, bytes("slow"), { signal: abort.signal });
    const signal = await begun.promise;
    const stopped = new Promise((resolve) => signal.addEventListener("abort", resolve));
    abort.abort(new Error("enough"));
    await assert.rejects(answer, { message: "enough" });
    await stopped;
  });

  for (const idempotent of [false, true]) {
    const often = idempotent ? "go to another provider" : "are carried out once";
    it(`that are ${idempotent ? "" : "not "}idempotent ${often} when their provider is lost`, async (t) => {
      const { provider, caller, bootstrap } = await pair(t);
      const { mesh: other } = await member({ network: NETWORK, bootstrap });
      t.after(() => other.close());
      const lost = Promise.withResolvers<NodeMesh>();
      let calls = 0;
      for (const mesh of [provider, other]) {
        const handler: RpcHandler = ({ payload }) => {
          calls++;
          if (calls > 1) return payload;
          lost.resolve(mesh);
          return new Promise(() => undefined);
        };
        await mesh.serve(SERVICE, rpcInSession({ handler, idempotent: true }), UNOWNED);
      }
      const client = createRpcClient({ mesh: caller, lookup: UNOWNED });
      t.after(() => client.close());
      const outcome = client
        .call(SERVICE, bytes("answered"), { idempotent, timeout_ms: 20_000 })
        .then(textOf, ({ name }) => name);
      await (await lost.promise).close();
      assert.deepEqual([await outcome, calls], idempotent ? ["answered", 2] : ["OutcomeUnknown", 1]);
    });
  }

  it("that are idempotent for the caller alone are carried out at most once", async (t) => {
    const seen: boolean[] = [];
    const handler: RpcHandler = ({ payload, isIdempotent }) => {
      seen.push(isIdempotent);
      return payload;
    };
    const { client } = await startInSession(t, { handler });
    assert.equal(textOf(await client.call(SERVICE, bytes("ping"), { idempotent: true })), "ping");
    assert.deepEqual(seen, [false]);
  });

  it("follow a service that stops giving out tickets", async (t) => {
    const { server } = startServer(t, echo, { idempotent: true, stateless: true });
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    const { provider, caller } = await pair(t);
    await provider.serve(SERVICE, server.tickets(address), UNOWNED);
    const client = createRpcClient({ mesh: caller, lookup: UNOWNED, log: () => undefined });
    t.after(() => client.close());
    await client.call(SERVICE, bytes("first"), { idempotent: true });
    assert.equal((await client.call(SERVICE, bytes("a"), { idempotent: true })).server, address);
    await provider.serve(SERVICE, rpcInSession({ handler: echo, idempotent: true }), UNOWNED);
    server.setTicketKey(new Uint8Array(32).fill(9));
    server.close();
    const { server: again } = startServer(t, echo, { ticketKey: new Uint8Array(32).fill(9) });
    const port = Number(address.split(":")[1]);
    await again.listenUdp({ host: "127.0.0.1", port });
    const answer = await client.call(SERVICE, bytes("b"), { idempotent: true });
    assert.deepEqual([textOf(answer), answer.server], ["b", `https://${SERVICE}.mesh`]);
  });

  it("are refused to whom no session proves, and when they are malformed", async (t) => {
    const { caller } = await startInSession(t, { handler: echo });
    const handler = rpcInSession({ handler: echo });
    const headers = { "selfsame-rpc-timeout": "1000" };
    const forged = { caller: caller.id, assurance: "session" } as CallContext;
    const stranger = await handler(new Request(CALL_URL, { method: "POST", headers }), forged);
    assert.equal(stranger.status, 403);
    const statusOf = async (url: string, init: RequestInit): Promise<number> => {
      const response = await caller.fetch(url, { ...UNOWNED, ...init });
      await response.body?.cancel();
      return response.status;
    };
    assert.equal(await statusOf(CALL_URL, { method: "GET", headers }), 405);
    assert.equal(await statusOf(CALL_URL, { method: "PUT", headers }), 405);
    assert.equal(await statusOf(TICKET_URL, { method: "GET" }), 405);
    assert.equal(await statusOf(`${CALL_URL}/more`, { method: "POST", headers }), 404);
    for (const timeout of ["", "0", "-1", "1e3", "4294967296", "1, 2", "x".repeat(9000)]) {
      const init = { method: "POST", headers: { "selfsame-rpc-timeout": timeout } };
      assert.equal(await statusOf(CALL_URL, init), 400, timeout.slice(0, 12));
    }
    assert.equal(await statusOf(CALL_URL, { method: "POST", headers }), 200);
  });

  it("do not let one caller keep the others out", async (t) => {
    const { provider, caller } = await startInSession(t, { handler: echo });
    const slow = upload(caller);
    await until("its caller has no room left", async () => (await statusOf(caller)) === 503);
    assert.equal(await statusOf(provider), 200);
    slow.end();
    const answer = await slow.response;
    assert.equal((await answer.arrayBuffer()).byteLength, MAX_MESSAGE - 1);
    assert.equal(await statusOf(caller), 200);
  });

  it("do not let a stranger with several identities keep the others out", async (t) => {
    const { provider, caller, bootstrap } = await startInSession(t, { handler: echo });
    const callers = [caller];
    while (callers.length < 4) {
      const { mesh } = await member({ network: NETWORK, bootstrap });
      t.after(() => mesh.close());
      callers.push(mesh);
    }
    for (const mesh of callers) {
      const slow = upload(mesh);
      t.after(slow.end);
      const refused = slow.response.then(({ status }) => status === 503);
      const hasNoRoom = async (): Promise<boolean> => (await statusOf(mesh)) === 503;
      await until("it holds what it may", () => Promise.any([refused, hasNoRoom()]));
    }
    assert.equal(await statusOf(provider), 200);
  });
});

describe("requests in sessions", () => {
  it("count until their calls end", async (t) => {
    const calls: ((answer: Uint8Array) => void)[] = [];
    const handler: RpcHandler = ({ payload }) =>
      payload.length === 0 ? payload : new Promise((resolve) => calls.push(resolve));
    const { client, caller } = await startInSession(t, { handler });
    const [small, large] = [64, 1024 * 1024].map((length) => client.call(SERVICE, new Uint8Array(length)));
    await until("both are carried out", () => calls.length === 2);
    const second = client.call(SERVICE, new Uint8Array(MAX_MESSAGE - 1024 * 1024), { timeout_ms: 5000 });
    await assert.rejects(second, { name: "TooManyRequests" });
    assert.equal(calls.length, 2);
    assert.equal(await statusOf(caller), 200, "a short one has room");
    for (const answer of calls) answer(new Uint8Array());
    await Promise.all([small, large]);
    const third = client.call(SERVICE, new Uint8Array(MAX_MESSAGE - 1024 * 1024));
    await until("there is room again", () => calls.length === 3);
    calls[2]?.(new Uint8Array());
    await third;
  });

  it("count with the bytes that they have once they are whole", async (t) => {
    const { handler, answer, calls } = held();
    const { client } = await startInSession(t, { handler });
    const answers = Array.from({ length: 200 }, () => client.call(SERVICE, bytes("short")));
    await until("they are carried out", () => calls() === 200);
    answers.push(client.call(SERVICE, new Uint8Array(MAX_MESSAGE / 2)));
    await until("a long one has room beside them", () => calls() === 201);
    answer();
    await Promise.all(answers);
  });
});

/** Begins a call whose request, almost the longest, ends when the test says so. */
function upload(mesh: NodeMesh): { response: Promise<Response>; end: () => void } {
  const { promise: end, resolve } = Promise.withResolvers<void>();
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new Uint8Array(MAX_MESSAGE - 1)),
    pull: async (controller) => {
      await end;
      controller.close();
    },
  });
  const init = { ...UNOWNED, method: "POST", headers: CALL_HEADERS, body, duplex: "half" };
  return { response: mesh.fetch(CALL_URL, init as RequestInit), end: resolve };
}

async function statusOf(mesh: NodeMesh): Promise<number> {
  const response = await mesh.fetch(CALL_URL, { ...UNOWNED, method: "POST", headers: CALL_HEADERS });
  await response.body?.cancel();
  return response.status;
}

describe("a client in front of a service that lies", () => {
  const answers: readonly [string, Response | Error, string, string][] = [
    [
      "a refusal without a code",
      answer(422, { "selfsame-rpc-refusal": "none" }),
      "OutcomeUnknown",
      "BadMessage",
    ],
    [
      "a refusal of a code too large",
      answer(422, { "selfsame-rpc-refusal": "65536" }),
      "OutcomeUnknown",
      "BadMessage",
    ],
    ["a status of no meaning", answer(418), "OutcomeUnknown", "BadMessage"],
    ["a gateway's failure", answer(502), "OutcomeUnknown", "BadMessage"],
    ["a redirect", answer(302, { location: "https://elsewhere.mesh/" }), "OutcomeUnknown", "BadMessage"],
    ["no such path", answer(404), "NoService", "NoService"],
    ["no method", answer(405), "NoService", "NoService"],
    ["no room", answer(503), "TooManyRequests", "TooManyRequests"],
    ["a broken session", new MeshError("Disconnected"), "OutcomeUnknown", "Disconnected"],
    ["a deadline of the mesh", new MeshError("Deadline"), "OutcomeUnknown", "TimedOut"],
    ["nobody", new MeshError("NoProvider"), "NoProvider", "NoProvider"],
    ["no route", new MeshError("DialFailed"), "DialFailed", "DialFailed"],
    [
      "an answer that is too long",
      new Response(new Uint8Array(MAX_MESSAGE + 1), { headers: OF_CALLS }),
      "OutcomeUnknown",
      "BadMessage",
    ],
    [
      "an answer that breaks off",
      new Response(broken(), { headers: OF_CALLS }),
      "OutcomeUnknown",
      "Disconnected",
    ],
    ["a page of another program", new Response("<html>"), "OutcomeUnknown", "BadMessage"],
  ];

  for (const [what, given, once, again] of answers) {
    it(`is told ${what}`, async (t) => {
      const { server } = startServer(t, echo);
      const mesh = new TestMesh(server, "127.0.0.1:7400");
      mesh.fetch = async () => {
        if (given instanceof Error) throw given;
        return given.clone();
      };
      const client = startClient(t, mesh);
      const options = { forwardSecret: true };
      await assert.rejects(client.call(SERVICE, bytes("x"), options), { name: once });
      await assert.rejects(client.call(SERVICE, bytes("x"), { ...options, idempotent: true }), {
        name: again,
      });
    });
  }

  function answer(status: number, headers: Record<string, string> = {}): Response {
    return new Response(null, { status, headers });
  }

  function broken(): ReadableStream<Uint8Array> {
    return new ReadableStream({ pull: (controller) => controller.error(new MeshError("Disconnected")) });
  }
});
