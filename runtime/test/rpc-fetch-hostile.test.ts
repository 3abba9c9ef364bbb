import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { encodeRequestHead, encodeResponseHead, type RequestHead } from "../src/codec/http.ts";
import type { CallContext, Handler } from "../src/driver/serve.ts";
import { createRpcClient, createRpcServer, type RpcClient } from "../src/entries/rpc-node.ts";
import type { RpcHandler } from "../src/rpc/handler.ts";
import { writeBatch, writeBegin } from "../src/rpc/procedures/wire.ts";
import { clientOf, startFetchServer, startPair, UNOWNED, URL_OF_SERVICE } from "./rpc-fetch-support.ts";
import {
  bytes,
  CALLER,
  echo,
  KEY,
  NETWORK,
  SERVICE,
  serveHttp,
  startClient,
  startServer,
  TestMesh,
} from "./rpc-support.ts";
import { member, until } from "./support.ts";

/** The kind of a request for a batch. */
const ASK = 1;
const GET: RequestHead = { method: "GET", path: "/", headers: [] };

/** A request, with whatever head and length of it. */
function exchange(head: Uint8Array, body = "", length = head.length): Uint8Array {
  const count = Buffer.alloc(4);
  count.writeUInt32LE(length);
  return writeBegin("http", Buffer.concat([count, head, bytes(body)]));
}

function headOf(head: Partial<RequestHead>): Uint8Array {
  return encodeRequestHead({ ...GET, ...head });
}

/** Sends bytes as a call and returns the code of the failure that they are answered with. */
async function failureOf(client: RpcClient, payload: Uint8Array, idempotent = true): Promise<number> {
  const answer = await client.call(SERVICE, payload, { idempotent });
  assert.equal(answer.payload[4], 1, Buffer.from(payload).toString("latin1").slice(0, 100));
  return JSON.parse(Buffer.from(answer.payload.subarray(5)).toString()).code;
}

describe("a server of HTTP by RPC", () => {
  it("refuses what is no request, and its handler never sees it", async (t) => {
    let asked = 0;
    // It binds no call, so that none becomes one that is carried out once.
    const options = { stateless: true };
    const handler: Handler = () => {
      asked++;
      return new Response();
    };
    const { client } = await startPair(t, handler, options);
    const BAD_MESSAGE = 0x0202;
    const wrong: readonly Uint8Array[] = [
      writeBegin("http", new Uint8Array(3)),
      exchange(new Uint8Array()),
      exchange(headOf({}), "", 1000),
      exchange(headOf({}), "", 0xffff_ffff),
      exchange(headOf({}).slice(0, -1)),
      exchange(Buffer.concat([headOf({}), Buffer.from([0])])),
      exchange(headOf({ headers: [["x-a", "a".repeat(17_000)]] })),
      exchange(headOf({ headers: Array.from({ length: 129 }, () => ["x-a", "1"] as const) })),
      ...["TRACE", "CONNECT", "get", "", "G T"].map((method) => exchange(headOf({ method }))),
      ...["", "a", "/../a", "/ ", "//?#", "*"].map((path) => exchange(headOf({ path }))),
      exchange(headOf({ headers: [["Host", "a"]] })),
      exchange(headOf({ headers: [["transfer-encoding", "chunked"]] })),
      exchange(headOf({ headers: [["content-length", "1"]] })),
      exchange(headOf({ headers: [["x-a", "a\nb"]] })),
      exchange(
        headOf({
          headers: [
            ["upgrade", "websocket"],
            ["sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="],
            ["sec-websocket-version", "13"],
          ],
        }),
      ),
      exchange(headOf({ method: "POST" })),
      exchange(headOf({ method: "PATCH" })),
    ];
    for (const payload of wrong) assert.equal(await failureOf(client, payload), BAD_MESSAGE);
    const NO_SERVICE = 0x0802;
    for (const path of ["", "/keys", "/call", "/other?a", "?a"].map(
      (rest) => `/.well-known/selfsame-rpc${rest}`,
    )) {
      assert.equal(await failureOf(client, exchange(headOf({ path }))), NO_SERVICE, path);
      assert.equal(
        await failureOf(client, exchange(headOf({ path, method: "POST" })), false),
        NO_SERVICE,
        path,
      );
    }
    assert.equal(await failureOf(client, writeBegin("other", new Uint8Array(10))), NO_SERVICE);
    for (const payload of [
      new Uint8Array(),
      bytes("ping"),
      bytes("spq\x01\x07"),
      bytes("spq\x01\x00\xffx"),
    ]) {
      await assert.rejects(client.call(SERVICE, payload, { idempotent: true }), { name: "BadMessage" });
    }
    await assert.rejects(client.call(SERVICE, bytes("spq\x02\x00"), { idempotent: true }), {
      name: "WrongVersion",
    });
    assert.equal(asked, 0);
  });

  it("gives the handler no body that is not as long as it is said to be", async (t) => {
    const bodies: string[] = [];
    const { client } = await startPair(t, async (request) => {
      bodies.push(await request.text().catch((error: Error) => error.name));
      return new Response();
    });
    for (const [length, body] of [
      ["4", "longer"],
      ["10", "shorter"],
    ] as const) {
      const head = headOf({ method: "POST", headers: [["content-length", length]] });
      assert.equal(await failureOf(client, exchange(head, body), false), 0x0202);
    }
    assert.deepEqual(bodies, ["BadMessage", "BadMessage"]);
  });

  it("asks who may call", async (t) => {
    const allow = (caller: string, { url, method }: Request): boolean =>
      caller === CALLER && method === "GET" && !url.endsWith("/secret");
    const { client, server, address, records } = await startPair(t, () => new Response("yes"), { allow });
    assert.equal((await client.fetch(URL_OF_SERVICE)).status, 200);
    assert.equal((await client.fetch(`${URL_OF_SERVICE}/secret`)).status, 403);
    assert.equal((await client.fetch(URL_OF_SERVICE, { method: "POST" })).status, 403);
    const other = clientOf(t, server, address, { caller: "cd".repeat(32) });
    assert.equal((await other.fetch(URL_OF_SERVICE)).status, 403);
    assert.equal(records.length, 3);
  });

  it("gives out no tickets that lead past who may call in sessions", async (t) => {
    const { mesh: provider, bootstrap } = await member({ network: NETWORK });
    t.after(() => provider.close());
    const { mesh: caller } = await member({ network: NETWORK, bootstrap });
    t.after(() => caller.close());
    const allow = (_: string, { url }: Request): boolean => !url.endsWith("/secret");
    const fetch: Handler = (_, { assurance }) => new Response(assurance);
    const secret = `${URL_OF_SERVICE}/secret`;
    for (const options of [{}, { allow }]) {
      const { server, address, records } = await startFetchServer(t, fetch, options);
      const tickets = server.tickets(address);
      // A handler around it changes nothing.
      const handler: Handler = (request, context) => tickets(request, context);
      const answer: Handler = (request, { caller }) =>
        new URL(request.url).pathname.startsWith("/.well-known")
          ? server.answerPeer(request, caller, address)
          : fetch(request, {} as CallContext);
      for (const served of [tickets, handler, answer]) {
        await provider.serve(SERVICE, served, { ...UNOWNED, allow });
        const client = createRpcClient({ mesh: caller, lookup: UNOWNED });
        assert.equal((await caller.fetch(secret, UNOWNED)).status, 403);
        if (options.allow === undefined) {
          await assert.rejects(client.fetch(secret), { name: "NoService" });
          assert.match(records.pop()?.text ?? "", /createRpcServer/);
        } else {
          assert.equal((await client.fetch(secret)).status, 403);
          assert.equal(await (await client.fetch(URL_OF_SERVICE)).text(), "ticket");
        }
        client.close();
      }
    }
  });

  it("holds of one source's requests little until their answers end", async (t) => {
    const pull = (controller: ReadableStreamDefaultController): void =>
      controller.enqueue(new Uint8Array(20_000));
    const { server } = await startFetchServer(t, () => new Response(new ReadableStream({ pull })));
    const of = async (ip: string): Promise<RpcClient> =>
      clientOf(t, server, await serveHttp(t, (request) => server.fetch(request, { address: ip })));
    const [client, other] = [await of("8.8.8.8"), await of("9.9.9.9")];
    const init = { method: "POST", body: new Uint8Array(15_000_000) };
    const open = [await client.fetch(URL_OF_SERVICE, init), await client.fetch(URL_OF_SERVICE, init)];
    await assert.rejects(client.fetch(URL_OF_SERVICE, init), { name: "TooManyRequests" });
    for (const answer of [await other.fetch(URL_OF_SERVICE, init), open[0]]) await answer?.body?.cancel();
    await until("there is room again", () =>
      client.fetch(URL_OF_SERVICE, init).then(
        (answer) => open.push(answer) > 0,
        () => false,
      ),
    );
    for (const { body } of open) await body?.cancel();
  });

  it("has a handler of calls or of HTTP", () => {
    const base = { network: NETWORK, service: SERVICE, ticketKey: KEY };
    const fetch: Handler = () => new Response();
    for (const options of [{}, { handler: echo, fetch }, { fetch: "text" as unknown as Handler }]) {
      assert.throws(() => createRpcServer({ ...base, ...options }), { name: "BadConfig" });
    }
  });
});

describe("a client of HTTP by RPC", () => {
  /** A client of a server that answers with any bytes, as a service of HTTP. */
  async function startLiar(t: TestContext, answer: RpcHandler): Promise<RpcClient> {
    const { server } = startServer(t, answer, { idempotent: true });
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    return startClient(t, {
      allowPrivate: true,
      fetch: async () => {
        const headers = { "selfsame-rpc-carries": "http" };
        return new Response(await server.issueTicket(CALLER, address), { headers });
      },
    });
  }

  it("takes no answer that is malformed", async (t) => {
    let answer = new Uint8Array();
    const client = await startLiar(t, () => answer);
    const last = (content: Uint8Array, number = 0): Uint8Array<ArrayBuffer> =>
      writeBatch(new Uint8Array(16), number, true, [content]) as Uint8Array<ArrayBuffer>;
    const head = encodeResponseHead({ status: 200, headers: [] });
    answer = last(head);
    assert.equal((await client.fetch(URL_OF_SERVICE)).status, 200);
    const long = encodeResponseHead({ status: 200, headers: [["x-a", "a".repeat(17_000)]] });
    const wrong = [
      new Uint8Array(),
      bytes("pong"),
      bytes("spa\x01\x00{}"),
      bytes("spa\x01\x03"),
      bytes("spa\x01\x01no JSON"),
      last(new Uint8Array()),
      last(head, 1),
      last(head.subarray(0, -1)),
      last(Buffer.concat([head, head]).subarray(1)),
      last(long),
      ...[99, 101, 199].map((status) => last(encodeResponseHead({ status, headers: [] }))),
      last(encodeResponseHead({ status: 200, headers: [["Upper", "a"]] })),
      last(encodeResponseHead({ status: 200, headers: [["x-a", "a\rb"]] })),
    ];
    for (const bytes of wrong) {
      answer = bytes as Uint8Array<ArrayBuffer>;
      await assert.rejects(
        client.fetch(URL_OF_SERVICE),
        { name: "BadMessage" },
        Buffer.from(bytes).toString("latin1").slice(0, 60),
      );
    }
    answer = last(
      Buffer.concat([encodeResponseHead({ status: 200, headers: [["content-length", "2"]] }), head]),
    );
    await assert.rejects((await client.fetch(URL_OF_SERVICE)).text(), { name: "BadMessage" });
    // A batch that was not asked for.
    answer = writeBatch(new Uint8Array(16), 0, false, [head]) as Uint8Array<ArrayBuffer>;
    const { body } = await client.fetch(URL_OF_SERVICE);
    await assert.rejects(new Response(body).text(), { name: "BadMessage" });
  });

  it("waits for no answer that does not begin, and for none that it has given up", async (t) => {
    const stream = new Uint8Array(16);
    let content = new Uint8Array();
    let asked = 0;
    const client = await startLiar(t, ({ payload }) => {
      if (payload[4] !== ASK) return writeBatch(stream, 0, false, [content]);
      asked++;
      return writeBatch(stream, new DataView(payload.buffer, 21).getUint32(0, true), false, []);
    });
    const init = { timeout_ms: 60_000 };
    await assert.rejects(client.fetch(URL_OF_SERVICE, init), { name: "Deadline" });
    // Of a head that begins nobody knows when it ends.
    const abort = new AbortController();
    content = Uint8Array.of(0);
    asked = 0;
    const begun = client.fetch(URL_OF_SERVICE, { ...init, signal: abort.signal });
    await until("the first batch has come", () => asked > 2);
    abort.abort(new Error("enough"));
    await assert.rejects(begun, { message: "enough" });
  });

  it("sends nothing to a service that does not carry HTTP", async (t) => {
    let calls = 0;
    const { server } = startServer(t, ({ payload }) => {
      calls++;
      return payload;
    });
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    const client = startClient(t, new TestMesh(server, address));
    await assert.rejects(client.fetch(URL_OF_SERVICE), { name: "NoService", message: /mesh\.fetch/ });
    assert.equal(calls, 0);
  });

  it("refuses what does not go by RPC", async (t) => {
    const { client } = await startPair(t, () => new Response());
    const refused = async (name: string, ...given: Parameters<RpcClient["fetch"]>): Promise<void> =>
      assert.rejects(client.fetch(...given), { name });
    await refused("BadConfig", "https://example.com/");
    await refused("BadConfig", URL_OF_SERVICE, { redirect: "follow" });
    const body = new Uint8Array(16 * 1024 * 1024);
    await refused("TooLarge", URL_OF_SERVICE, { method: "POST", body });
    await refused("TooLarge", URL_OF_SERVICE, { headers: { "x-a": "a".repeat(17_000) } });
    const mesh = { allowPrivate: true, fetch: async () => new Response() };
    const secret = createRpcClient({ mesh, forwardSecret: true });
    t.after(() => secret.close());
    await assert.rejects(secret.fetch(URL_OF_SERVICE), { name: "BadConfig" });
    assert.throws(() => createRpcClient({ mesh, forFetch: true }), { name: "BadConfig" });
    client.close();
    await refused("Cancelled", URL_OF_SERVICE);
  });

  it("gives a body of megabytes to the service", async (t) => {
    const { client } = await startPair(
      t,
      async (request) => new Response(`${(await request.arrayBuffer()).byteLength}`),
      {
        way: "http",
      },
    );
    const body = new Uint8Array(5_000_000);
    assert.equal(await (await client.fetch(URL_OF_SERVICE, { method: "POST", body })).text(), "5000000");
  });
});
