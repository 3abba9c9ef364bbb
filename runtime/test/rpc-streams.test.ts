import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { z } from "zod";
import type { Timers } from "../src/driver/timers.ts";
import {
  implement,
  ProcedureError,
  procedure,
  procedures,
  type RpcClient,
  RpcRefusal,
  type RpcServer,
  type StreamContext,
  type TypedClient,
  typed,
} from "../src/entries/rpc-node.ts";
import {
  ManualTimers,
  SERVICE,
  serveHttp,
  startClient,
  startServer,
  TestMesh,
  ticketMesh,
} from "./rpc-support.ts";
import { freeUdpPort, until } from "./support.ts";

const contract = procedures({
  count: procedure({ input: z.number(), stream: z.number(), idempotent: true }),
});
type Api = TypedClient<typeof contract>;
type Count = (input: number, context: StreamContext) => AsyncIterable<number>;

const WAYS = ["udp", "http"] as const;

interface Started {
  readonly api: Api;
  readonly client: RpcClient;
  readonly server: RpcServer;
  readonly mesh: TestMesh;
}

async function start(
  t: TestContext,
  count: Count,
  options: { way?: (typeof WAYS)[number]; timers?: Timers; port?: number } = {},
): Promise<Started> {
  const { way = "udp", timers, port = 0 } = options;
  const handler = implement(contract, { count }, { timers });
  const { server } = startServer(t, handler, { idempotent: true, stateless: true });
  const address =
    way === "udp"
      ? (await server.listenUdp({ host: "127.0.0.1", port })).address
      : await serveHttp(t, (request, origin) => server.fetch(request, origin));
  const mesh = new TestMesh(server, address);
  const client = startClient(t, mesh);
  return { api: typed(client, SERVICE, contract), client, server, mesh };
}

/** Counts to the input, or on and on if that is 0, and tells how it ended. */
function counter(): { count: Count; given: () => number; ended: Promise<unknown> } {
  let given = 0;
  const ended = Promise.withResolvers<unknown>();
  const count: Count = async function* (input, { signal }) {
    try {
      while (input === 0 || given < input) yield ++given;
    } finally {
      ended.resolve(signal.reason);
    }
  };
  return { count, given: () => given, ended: ended.promise };
}

const silent: Count = async function* (_, { signal }) {
  await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  yield 1;
};

/** Gives one item, and no other. */
const lasting: Count = async function* (input, context) {
  yield 1;
  yield* silent(input, context);
};

for (const way of WAYS) {
  describe(`streams over ${way}`, () => {
    it("give all items in their order, in batches", async (t) => {
      const { count } = counter();
      const { api } = await start(t, count, { way });
      let expected = 0;
      for await (const item of api.count(5000)) assert.equal(item, ++expected);
      assert.equal(expected, 5000);
      for await (const item of api.count(1)) assert.fail(`${item} comes after the last`);
    });

    it("produce little more than what is taken, and end when their consumer stops", async (t) => {
      const { count, given, ended } = counter();
      const { api } = await start(t, count, { way });
      for await (const item of api.count(0)) {
        if (item < 3) continue;
        // The first batch, and the second, which is asked for meanwhile.
        await until("two batches were made", () => given() >= 2048);
        break;
      }
      await ended;
      assert.ok(given() <= 2048 + 1024, `${given()} items were made`);
    });

    it("end with their caller's signal", async (t) => {
      const { count, ended } = counter();
      const { api } = await start(t, count, { way });
      const abort = new AbortController();
      const taking = async (): Promise<void> => {
        for await (const _ of api.count(0, { signal: abort.signal })) abort.abort(new Error("enough"));
      };
      await assert.rejects(taking(), { message: "enough" });
      await ended;
    });

    it("end while their caller waits for an item", async (t) => {
      const begun = Promise.withResolvers<AbortSignal>();
      const { api } = await start(
        t,
        (_, context) => {
          begun.resolve(context.signal);
          return silent(0, context);
        },
        { way },
      );
      const abort = new AbortController();
      const taking = api.count(0, { signal: abort.signal }).next();
      const signal = await begun.promise;
      const stopped = new Promise((resolve) => signal.addEventListener("abort", resolve));
      abort.abort(new Error("enough"));
      await assert.rejects(taking, { message: "enough" });
      await stopped;
    });
  });
}

describe("a stream", () => {
  it("gives what came before its failure, and then the failure", async (t) => {
    for (const [error, name] of [
      [new RpcRefusal("NotGranted", "no further"), "NotGranted"],
      [new Error("broken"), "HandlerFailed"],
    ] as const) {
      const { api } = await start(t, async function* () {
        yield* [1, 2];
        throw error;
      });
      const items: number[] = [];
      const taking = async (): Promise<void> => {
        for await (const item of api.count(0)) items.push(item);
      };
      await assert.rejects(taking(), { name });
      assert.deepEqual(items, [1, 2]);
    }
  });

  it("ends with an item that the contract does not allow", async (t) => {
    const ended = Promise.withResolvers<void>();
    const { api } = await start(t, async function* () {
      try {
        for (;;) yield "one" as unknown as number;
      } finally {
        ended.resolve();
      }
    });
    await assert.rejects(api.count(0).next(), (error) => error instanceof ProcedureError);
    await ended.promise;
  });

  it("whose items are too large, or have no JSON, fails and ends", async (t) => {
    for (const item of ["x".repeat(1024 * 1024), 1n]) {
      const ended = Promise.withResolvers<void>();
      const { api } = await start(t, async function* () {
        try {
          for (;;) yield item as unknown as number;
        } finally {
          ended.resolve();
        }
      });
      await assert.rejects(api.count(0).next(), { name: "HandlerFailed" });
      await ended.promise;
    }
  });

  it("takes no batch that is malformed or another one", async (t) => {
    const { server } = startServer(t, () => answer, { idempotent: true, stateless: true });
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    const api = typed(startClient(t, new TestMesh(server, address)), SERVICE, contract);
    const batch = (number: number, items: string): Uint8Array =>
      Buffer.concat([
        Buffer.from("spa\x01\x03"),
        Buffer.alloc(16),
        Buffer.from([number, 0, 0, 0]),
        Buffer.from(items),
      ]);
    let answer: Uint8Array = batch(0, "[1]");
    assert.equal((await api.count(0).next()).value, 1);
    const malformed = [
      batch(1, "[1]"),
      batch(0, "{}"),
      batch(0, ""),
      batch(0, "[1"),
      batch(0, `${"[".repeat(200)}`),
    ];
    for (const bytes of [...malformed, batch(0, "").subarray(0, 24), Buffer.from("spa\x01\x001")]) {
      answer = bytes;
      await assert.rejects(api.count(0).next(), { name: "BadMessage" }, Buffer.from(bytes).toString("hex"));
    }
  });

  it("ends when its service disposes of its handler", async (t) => {
    const { count, ended } = counter();
    const handler = implement(contract, { count });
    const { server } = startServer(t, handler, { idempotent: true, stateless: true });
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    const client = startClient(t, new TestMesh(server, address));
    const { payload } = await client.call(SERVICE, begin(0), { idempotent: true });
    handler[Symbol.dispose]();
    assert.equal(((await ended) as Error).name, "Cancelled");
    assert.equal(await failureOf(client, ask(streamIn(payload), 1)), "UnknownStream");
  });

  it("waits for slow items, and tells its caller meanwhile that it lives", async (t) => {
    const timers = new ManualTimers();
    const item = Promise.withResolvers<number>();
    const { api, client } = await start(
      t,
      async function* () {
        yield await item.promise;
      },
      { timers },
    );
    let calls = 0;
    const counting = {
      call: (...given: Parameters<RpcClient["call"]>): ReturnType<RpcClient["call"]> => {
        calls++;
        return client.call(...given);
      },
    };
    const taking = typed(counting, SERVICE, contract).count(0).next();
    for (let at = 1; at < 4; at++) {
      await until("the stream is asked again", () => {
        timers.pass(10_000);
        return calls > at;
      });
    }
    item.resolve(7);
    assert.equal((await taking).value, 7);
    assert.ok(api);
  });

  it("ends 30 s after it was asked last", async (t) => {
    const timers = new ManualTimers();
    const { count, ended } = counter();
    const { api, client } = await start(t, count, { timers });
    const items = api.count(0);
    await items.next();
    const { payload } = await client.call(SERVICE, begin(0), { idempotent: true });
    const stream = streamIn(payload);
    timers.pass(29_999);
    await client.call(SERVICE, ask(stream, 1), { idempotent: true });
    timers.pass(29_999);
    await client.call(SERVICE, ask(stream, 2), { idempotent: true });
    timers.pass(30_000);
    assert.equal(((await ended) as Error).name, "TimedOut");
    assert.equal(await failureOf(client, ask(stream, 3)), "UnknownStream");
  });

  it("gives its latest batch again, and no other", async (t) => {
    const { count } = counter();
    const { client } = await start(t, count);
    const send = async (request: Uint8Array): Promise<Buffer> =>
      Buffer.from((await client.call(SERVICE, request, { idempotent: true })).payload);
    const first = await send(begin(5000));
    const stream = streamIn(first);
    assert.deepEqual(await send(ask(stream, 0)), first);
    const [second, joined] = await Promise.all([send(ask(stream, 1)), send(ask(stream, 1))]);
    assert.deepEqual(joined, second);
    assert.deepEqual(await send(ask(stream, 1)), second);
    assert.notDeepEqual(second.subarray(25), first.subarray(25));
    for (const number of [0, 3, 0xffff_ffff])
      assert.equal(await failureOf(client, ask(stream, number)), "BadStream");
    let last = second;
    for (let number = 2; last[4] === 2; number++) last = await send(ask(stream, number));
    assert.equal(last.readUInt32LE(21), 4);
    assert.deepEqual(await send(ask(stream, 4)), last, "the last batch is kept, too");
    assert.equal(await failureOf(client, ask(stream, 5)), "BadStream");
  });

  it("is of the caller that began it", async (t) => {
    const { count } = counter();
    const { client, server, mesh } = await start(t, count);
    const { payload } = await client.call(SERVICE, begin(0), { idempotent: true });
    const stream = streamIn(payload);
    const stranger = clientOf(t, server, mesh.addresses[0] ?? "", "cd".repeat(32));
    assert.equal(await failureOf(stranger, ask(stream, 1)), "UnknownStream");
    await stranger.call(SERVICE, end(stream));
    await client.call(SERVICE, ask(stream, 1), { idempotent: true });
  });

  it("whose replica starts anew ends with one error", async (t) => {
    const port = await freeUdpPort();
    const { count } = counter();
    const { api, server, mesh } = await start(t, count, { port });
    const items = api.count(0, { timeout_ms: 2000 });
    await items.next();
    server.close();
    const { server: next } = startServer(t, implement(contract, { count }), {
      idempotent: true,
      stateless: true,
    });
    await next.listenUdp({ host: "127.0.0.1", port });
    mesh.server = next;
    const taking = async (): Promise<void> => {
      for await (const _ of items) assert.ok(_);
    };
    await assert.rejects(taking(), (error: Error) => ["UnknownStream", "TimedOut"].includes(error.name));
    assert.deepEqual(await items.next(), { done: true, value: undefined });
    for await (const item of api.count(0)) {
      assert.ok(item > 0);
      break;
    }
  });
});

describe("open streams", () => {
  it("of one caller leave room to others", async (t) => {
    const { client, server, mesh } = await start(t, lasting);
    for (let at = 0; at < 32; at++) await client.call(SERVICE, begin(0), { idempotent: true });
    assert.equal(await failureOf(client, begin(0)), "TooManyStreams");
    const other = clientOf(t, server, mesh.addresses[0] ?? "", "cd".repeat(32));
    const { payload } = await other.call(SERVICE, begin(0), { idempotent: true });
    await other.call(SERVICE, end(streamIn(payload)));
    assert.equal(await failureOf(client, begin(0)), "TooManyStreams", "another one has ended");
  });

  it("of one network's many identities leave room to others", async (t) => {
    const handler = implement(contract, { count: lasting });
    const { server } = startServer(t, handler, { idempotent: true, stateless: true });
    let address = "";
    const url = await serveHttp(t, (request) => server.fetch(request, { address }));
    const identities = Array.from({ length: 9 }, (_, peer) =>
      clientOf(t, server, url, String(peer).padStart(64, "0")),
    );
    const isTaken = async (stream: number): Promise<boolean> => {
      const client = identities[Math.trunc(stream / 32)] ?? assert.fail();
      return (await client.call(SERVICE, begin(0), { idempotent: true })).payload[4] === 2;
    };
    for (let stream = 0; stream < 256; stream++) {
      address = `8.8.4.${stream}`;
      assert.ok(await isTaken(stream), `stream ${stream}`);
    }
    assert.ok(!(await isTaken(256)));
    address = "1.1.1.1";
    assert.ok(await isTaken(256));
  });

  it("that have ended take no place", async (t) => {
    // A batch of its own each.
    const item = "x".repeat(65_536) as unknown as number;
    const { client } = await start(
      t,
      async function* () {
        yield* [item, item];
      },
      { way: "http" },
    );
    const streams: Uint8Array[] = [];
    for (let at = 0; at < 300; at++) {
      const { payload } = await client.call(SERVICE, begin(0), { idempotent: true });
      const stream = streamIn(payload);
      streams.push(stream);
      for (const number of [1, 2]) await client.call(SERVICE, ask(stream, number), { idempotent: true });
    }
    assert.equal(await failureOf(client, ask(streams[0] ?? assert.fail(), 2)), "UnknownStream");
    const kept = await client.call(SERVICE, ask(streams.at(-200) ?? assert.fail(), 2), { idempotent: true });
    assert.equal(kept.payload[4], 3, "its last batch is kept");
  });

  it("that have ended are not forgotten for strangers", async (t) => {
    for (const [network, identities] of [
      ["8.8.4", 300],
      ["1.1.1", 1],
    ] as const) {
      const handler = implement(contract, { count: counter().count });
      const { server } = startServer(t, handler, { idempotent: true, stateless: true });
      let address = "1.1.1.1";
      const url = await serveHttp(t, (request) => server.fetch(request, { address }));
      const client = clientOf(t, server, url, "cd".repeat(32));
      const { payload } = await client.call(SERVICE, begin(1), { idempotent: true });
      const stream = payload.slice(5, 21);
      const strangers = Array.from({ length: identities }, (_, peer) =>
        clientOf(t, server, url, String(peer).padStart(64, "0")),
      );
      for (let at = 0; at < 300; at++) {
        address = `${network}.${at % 256}`;
        await strangers[at % identities]?.call(SERVICE, begin(at), { idempotent: true });
      }
      const again = await client.call(SERVICE, ask(stream, 0), { idempotent: true });
      assert.deepEqual(again.payload, payload, network);
    }
  });
});

function clientOf(t: TestContext, server: RpcServer, address: string, caller: string): RpcClient {
  return startClient(
    t,
    ticketMesh(() => server.issueTicket(caller, address)),
  );
}

function begin(input: number): Uint8Array {
  return Buffer.from(`spq\x01\x00\x05count${input}`);
}

function ask(stream: Uint8Array, number: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(number);
  return Buffer.concat([Buffer.from("spq\x01\x01"), stream, bytes]);
}

function end(stream: Uint8Array): Uint8Array {
  return Buffer.concat([Buffer.from("spq\x01\x02"), stream]);
}

function streamIn(payload: Uint8Array): Uint8Array {
  assert.equal(payload[4], 2, "a batch, and more to come");
  return payload.slice(5, 21);
}

async function failureOf(client: RpcClient, request: Uint8Array): Promise<string> {
  const names: Record<number, string> = { 258: "UnknownStream", 774: "BadStream", 1539: "TooManyStreams" };
  const { payload } = await client.call(SERVICE, request, { idempotent: true });
  assert.equal(payload[4], 1, "a failure");
  return names[JSON.parse(Buffer.from(payload.subarray(5)).toString()).code] ?? "another";
}
