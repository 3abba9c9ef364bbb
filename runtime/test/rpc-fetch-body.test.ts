import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Handler } from "../src/driver/serve.ts";
import type { RpcClient } from "../src/entries/rpc-node.ts";
import { clientOf, startFetchServer, startPair, URL_OF_SERVICE, WAYS } from "./rpc-fetch-support.ts";
import { bytes, ManualTimers, SERVICE } from "./rpc-support.ts";
import { freeUdpPort, turn, until } from "./support.ts";

const CHUNK = 10_000;

/** Answers with a body without end, and tells how much of it was made and how it ended. */
function endless(): {
  fetch: Handler;
  made: () => number;
  signal: Promise<AbortSignal>;
  cancelled: Promise<unknown>;
} {
  let made = 0;
  const begun = Promise.withResolvers<AbortSignal>();
  const cancelled = Promise.withResolvers<unknown>();
  const fetch: Handler = ({ signal }) => {
    begun.resolve(signal);
    const pull = async (controller: ReadableStreamDefaultController): Promise<void> => {
      await turn();
      made += CHUNK;
      controller.enqueue(new Uint8Array(CHUNK));
    };
    return new Response(new ReadableStream({ pull, cancel: cancelled.resolve }, { highWaterMark: 0 }));
  };
  return { fetch, made: () => made, signal: begun.promise, cancelled: cancelled.promise };
}

/** Answers with what a test sends. */
function events(): { fetch: Handler; send: (text: string) => void; end: () => void; fail: () => void } {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (given) => {
      controller = given;
    },
  });
  return {
    fetch: () => new Response(body, { headers: { "content-type": "text/event-stream" } }),
    send: (text) => controller?.enqueue(bytes(text)),
    end: () => controller?.close(),
    fail: () => controller?.error(new Error("on purpose")),
  };
}

async function readerOf(
  client: RpcClient,
  init: RequestInit = {},
): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const { body } = await client.fetch(URL_OF_SERVICE, init);
  return (body ?? assert.fail()).getReader();
}

/** Says whether a number has stayed as it is for a while. */
function steady(current: () => number): () => boolean {
  let [last, same] = [-1, 0];
  return () => {
    const now = current();
    same = now === last ? same + 1 : 0;
    last = now;
    return same > 25;
  };
}

async function nextText(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string | undefined> {
  const { value } = await reader.read();
  return value && Buffer.from(value).toString();
}

for (const way of WAYS) {
  describe(`a body that is pulled over ${way}`, () => {
    it("gives events as they are sent", async (t) => {
      const { fetch, send, end } = events();
      const { client } = await startPair(t, fetch, { way });
      const reader = await readerOf(client);
      for (const text of ["data: 1\n\n", "data: 2\n\n", "data: 3\n\n"]) {
        send(text);
        assert.equal(await nextText(reader), text);
      }
      end();
      assert.equal(await nextText(reader), undefined);
    });

    it("is made as far as it is read", async (t) => {
      const { fetch, made, cancelled } = endless();
      const { client } = await startPair(t, fetch, { way });
      const reader = await readerOf(client);
      await reader.read();
      const most = 512 * 1024;
      await until("nothing more is made", steady(made));
      assert.ok(made() <= most, `${made()} bytes are made of which one chunk is read`);
      let read = 0;
      while (read < most) read += (await reader.read()).value?.length ?? assert.fail();
      assert.ok(made() <= read + most);
      await reader.cancel();
      await cancelled;
    });

    it("ends at its service when its reader cancels it", async (t) => {
      const { fetch, signal, cancelled } = endless();
      const { client } = await startPair(t, fetch, { way });
      const { body } = await client.fetch(URL_OF_SERVICE);
      await body?.cancel();
      await cancelled;
      assert.equal((await signal).reason.name, "Cancelled");
    });

    it("ends with the reason of its caller's signal", async (t) => {
      const { fetch, cancelled } = endless();
      const { client } = await startPair(t, fetch, { way });
      const abort = new AbortController();
      const reader = await readerOf(client, { signal: abort.signal });
      await reader.read();
      abort.abort(new Error("enough"));
      const reading = (async () => {
        for (;;) await reader.read();
      })();
      await assert.rejects(reading, { message: "enough" });
      await cancelled;
    });

    it("ends with an error when its service breaks it off", async (t) => {
      const { fetch, send, fail } = events();
      const { client, records } = await startPair(t, fetch, { way });
      const reader = await readerOf(client);
      send("half");
      assert.equal(await nextText(reader), "half");
      fail();
      await assert.rejects(reader.read(), { name: "StreamRefused" });
      assert.deepEqual(
        records.map(({ level }) => level),
        ["error"],
      );
    });
  });
}

describe("a body that is pulled", () => {
  it("ends with an error when its replica starts anew", async (t) => {
    const port = await freeUdpPort();
    const { fetch } = endless();
    const { server } = await startFetchServer(t, fetch);
    const { address } = await server.listenUdp({ host: "127.0.0.1", port });
    const client = clientOf(t, server, address);
    const reader = await readerOf(client);
    server.close();
    const { server: next } = await startFetchServer(t, fetch);
    await next.listenUdp({ host: "127.0.0.1", port });
    const reading = (async () => {
      for (;;) await reader.read();
    })();
    await assert.rejects(reading, { name: "Disconnected" });
  });

  it("waits for a reader who takes long", async (t) => {
    const timers = new ManualTimers();
    const { fetch, cancelled } = endless();
    let asked = 0;
    const { server, address } = await startFetchServer(t, fetch, { way: "http", timers });
    const client = clientOf(t, server, address, { mesh: { timers } });
    const call = client.call.bind(client);
    client.call = (...given) => {
      asked++;
      return call(...given);
    };
    const reader = await readerOf(client);
    const read = async (most: number): Promise<void> => {
      for (let count = 0; count < most; ) count += (await reader.read()).value?.length ?? assert.fail();
    };
    await read(1);
    await until(
      "no batch is asked for",
      steady(() => asked),
    );
    for (let round = 0; round < 4; round++) {
      const before = asked;
      timers.pass(15_000);
      await until(
        "the replica has heard of the reader",
        steady(() => asked),
      );
      assert.equal(asked, before + 1);
    }
    await read(1_000_000);
    await reader.cancel();
    await cancelled;
  });

  it("ends when its service ends", async (t) => {
    const { fetch, cancelled, signal } = endless();
    const { client, server } = await startPair(t, fetch);
    await client.fetch(URL_OF_SERVICE);
    server.close();
    await cancelled;
    assert.ok((await signal).aborted);
  });

  it("takes a place among the open ones of its caller, and a short one takes none", async (t) => {
    const { fetch } = endless();
    const handler: Handler = (request, context) =>
      request.url.endsWith("/short") ? new Response("short") : fetch(request, context);
    const { client, server, address } = await startPair(t, handler, { way: "http" });
    const open = await Promise.all(Array.from({ length: 32 }, () => client.fetch(URL_OF_SERVICE)));
    await assert.rejects(client.fetch(URL_OF_SERVICE), { name: "TooManyStreams" });
    assert.equal(await (await client.fetch(`${URL_OF_SERVICE}/short`)).text(), "short");
    const other = clientOf(t, server, address, { caller: "cd".repeat(32) });
    await (await other.fetch(URL_OF_SERVICE)).body?.cancel();
    await open[0]?.body?.cancel();
    await until("there is room again", async () => {
      const isFree = await client.fetch(URL_OF_SERVICE).then(
        () => true,
        () => false,
      );
      return isFree;
    });
  });

  it("is not given by a replica that keeps nothing", async (t) => {
    const { fetch, cancelled } = endless();
    const handler: Handler = (request, context) =>
      request.url.endsWith("/short") ? new Response("short") : fetch(request, context);
    const { client } = await startPair(t, handler, { way: "http", stateless: true });
    assert.equal(await (await client.fetch(`${URL_OF_SERVICE}/short`)).text(), "short");
    await assert.rejects(client.fetch(URL_OF_SERVICE), { name: "TooManyStreams" });
    await cancelled;
  });

  it("is its caller's alone", async (t) => {
    const { fetch } = endless();
    const { client, server, address } = await startPair(t, fetch);
    const begin = Buffer.concat([
      Buffer.from("spq\x01\x00\x04http"),
      Buffer.from([7, 0, 0, 0, 0x83, 0x63, ...Buffer.from("GET"), 0x61, 0x2f, 0x80]),
    ]);
    begin[10] = begin.length - 14;
    const { payload } = await client.call(SERVICE, begin, { idempotent: true });
    assert.equal(payload[4], 2, "a batch, and more to come");
    const ask = (stream: Uint8Array): Buffer =>
      Buffer.concat([Buffer.from("spq\x01\x01"), stream, Buffer.from([1, 0, 0, 0])]);
    const other = clientOf(t, server, address, { caller: "cd".repeat(32) });
    for (const [who, stream] of [
      [other, payload.slice(5, 21)],
      [client, new Uint8Array(16)],
    ] as const) {
      const { payload: refusal } = await who.call(SERVICE, ask(stream), { idempotent: true });
      assert.equal(JSON.parse(Buffer.from(refusal.subarray(5)).toString()).code, 0x0102);
    }
    const { payload: next } = await client.call(SERVICE, ask(payload.slice(5, 21)), { idempotent: true });
    assert.equal(next[4], 2);
  });
});
