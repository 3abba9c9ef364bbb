import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { MAX_BODY } from "../src/rpc/limits.ts";
import type { RpcServer } from "../src/rpc/server.ts";
import { held } from "./rpc-sockets.ts";
import { SERVICE, serveHttp, startClient, startServer, TestMesh } from "./rpc-support.ts";
import { until } from "./support.ts";

const URL_OF_SERVER = "https://service.example/rpc";
const TYPE = "application/octet-stream";

interface Posted {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly response: Response;
}

function post(
  server: RpcServer,
  body: BodyInit | null,
  address = "1.1.1.1",
  headers: HeadersInit = {},
): Promise<Response> {
  const init = { method: "POST", headers: { "content-type": TYPE, ...headers }, body, duplex: "half" };
  return server.fetch(new Request(URL_OF_SERVER, init as RequestInit), { address });
}

/** A server over HTTP, a client of it, and what went between them. */
async function recorded(
  t: TestContext,
  handler: Parameters<typeof startServer>[1],
): Promise<{ server: RpcServer; posts: Posted[]; call: (text: string) => Promise<unknown> }> {
  const { server } = startServer(t, handler, { idempotent: true, stateless: true });
  const posts: Posted[] = [];
  const url = await serveHttp(t, async (request, origin) => {
    const body = new Uint8Array(await request.clone().arrayBuffer());
    const response = await server.fetch(request, origin);
    posts.push({ body, response: response.clone() });
    return response;
  });
  const client = startClient(t, new TestMesh(server, url));
  const call = (text: string): Promise<unknown> =>
    client.call(SERVICE, new TextEncoder().encode(text), { idempotent: true });
  return { server, posts, call };
}

describe("the binding of the RPC to HTTP", () => {
  it("is one request and one response for a call", async (t) => {
    const { posts, call } = await recorded(t, ({ payload }) => payload);
    await call("ping");
    const [{ body, response } = assert.fail(), ...more] = posts;
    assert.equal(more.length, 0);
    assert.equal(body[0], 0x60);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), TYPE);
    assert.equal(new Uint8Array(await response.arrayBuffer())[0], 0x62);
  });

  it("refuses what is no datagram of a client", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload);
    const request = (init: RequestInit): Promise<Response> => server.fetch(new Request(URL_OF_SERVER, init));
    assert.equal((await request({ method: "GET" })).status, 405);
    assert.equal((await request({ method: "OPTIONS" })).status, 204);
    assert.equal((await post(server, "{}", "", { "content-type": "application/json" })).status, 415);
    for (const bytes of [0, 1, 17, 100, 4096]) {
      assert.equal((await post(server, new Uint8Array(bytes))).status, 400, `${bytes} bytes`);
    }
    const part = new Uint8Array(200);
    part.set([0x60, 0b1000]);
    assert.equal((await post(server, part)).status, 400, "a packet of many");
    assert.equal((await post(server, new Uint8Array(MAX_BODY + 1))).status, 413);
    assert.equal((await post(server, "x", "", { "content-length": `${MAX_BODY + 1}` })).status, 413);
  });

  it("rejects a ticket that does not open, with fewer bytes than came", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload);
    for (const form of [0x60, 0x61]) {
      const forged = new Uint8Array(200).fill(9);
      forged.set([form, 0]);
      const response = await post(server, forged);
      assert.equal(response.status, 200);
      const answer = new Uint8Array(await response.arrayBuffer());
      assert.equal(answer[0], 0x63);
      assert.ok(answer.length < forged.length);
    }
  });

  it("carries a request out once, and answers a copy with the same bytes", async (t) => {
    let calls = 0;
    const { server, posts, call } = await recorded(t, ({ payload }) => {
      calls++;
      return payload;
    });
    await call("once");
    const [{ body, response } = assert.fail()] = posts;
    const again = await post(server, body, "127.0.0.1");
    assert.deepEqual(await again.arrayBuffer(), await response.arrayBuffer());
    assert.equal(calls, 1);
    const changed = body.slice();
    changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
    assert.equal((await post(server, changed, "127.0.0.1")).status, 204);
    assert.equal(calls, 1);
  });

  it("gives the answer to each connection on which the request came", async (t) => {
    const begun = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<Uint8Array>();
    let calls = 0;
    const { server } = startServer(
      t,
      () => {
        calls++;
        begun.resolve();
        return answered.promise;
      },
      { idempotent: true, stateless: true },
    );
    let request: Uint8Array<ArrayBuffer> | undefined;
    const url = await serveHttp(t, async (received, origin) => {
      request = new Uint8Array(await received.clone().arrayBuffer());
      return server.fetch(received, origin);
    });
    const client = startClient(t, new TestMesh(server, url));
    const call = client.call(SERVICE, new Uint8Array(1), { idempotent: true });
    await begun.promise;
    const copy = post(server, request ?? assert.fail());
    answered.resolve(new TextEncoder().encode("late"));
    assert.equal(new TextDecoder().decode((await call).payload), "late");
    assert.equal((await copy).status, 200);
    assert.equal(calls, 1);
  });

  it("gives a stranger who knows a tag neither the answer nor the place of its request", async (t) => {
    const begun = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<Uint8Array>();
    const handler = (): Promise<Uint8Array> => {
      begun.resolve();
      return answered.promise;
    };
    const { server } = startServer(t, handler, { idempotent: true, stateless: true });
    const requests: Uint8Array<ArrayBuffer>[] = [];
    const url = await serveHttp(t, async (received, origin) => {
      requests.push(new Uint8Array(await received.clone().arrayBuffer()));
      return server.fetch(received, origin);
    });
    const client = startClient(t, new TestMesh(server, url));
    const call = client.call(SERVICE, new Uint8Array(1), { idempotent: true });
    await begun.promise;
    const tag = requests[0]?.subarray(-16) ?? assert.fail();
    const forged = new Uint8Array(200).fill(9);
    forged.set([0x60, 0]);
    forged.set(tag, 184);
    const rejection = await post(server, forged);
    assert.equal(new Uint8Array(await rejection.arrayBuffer())[0], 0x63, "its own ticket is none");
    answered.resolve(new TextEncoder().encode("answer"));
    assert.equal(new TextDecoder().decode((await call).payload), "answer");
    assert.equal(requests.length, 1, "the request got its own answer");
  });

  it("does not let one source keep the others out", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload);
    const stalled: ReadableStreamDefaultController<Uint8Array>[] = [];
    const stall = (): Promise<Response> =>
      post(
        server,
        new ReadableStream<Uint8Array<ArrayBuffer>>({ start: (controller) => void stalled.push(controller) }),
        "1.1.1.1",
      );
    // The module is there before the first of them is counted.
    await post(server, new Uint8Array(200));
    const held = Array.from({ length: 1024 }, stall);
    const refused = await post(server, new Uint8Array(200), "1.1.1.2");
    assert.ok(refused.status === 429 || refused.status === 503, `${refused.status}`);
    assert.equal(refused.headers.get("retry-after"), "1");
    assert.equal((await post(server, new Uint8Array(200), "1.1.2.1")).status, 400, "another source is heard");
    for (const controller of stalled) controller.error(new Error("gone"));
    const statuses = new Set((await Promise.all(held)).map(({ status }) => status));
    assert.ok(statuses.has(400));
    assert.equal(
      (await post(server, new Uint8Array(200), "1.1.1.2")).status,
      400,
      "what it held is given back",
    );
  });

  it("holds of one source's long requests little, until their calls end", async (t) => {
    const { handler, answer, calls } = held();
    const { server } = startServer(t, handler, { idempotent: true, stateless: true });
    let address = "1.1.1.1";
    const url = await serveHttp(t, (request) => server.fetch(request, { address }));
    const client = startClient(t, new TestMesh(server, url));
    const call = (bytes: number): Promise<unknown> =>
      client.call(SERVICE, new Uint8Array(bytes), { idempotent: true, timeout_ms: 20_000 });
    const answers: Promise<unknown>[] = [];
    const begin = async (bytes: number): Promise<void> => {
      const count = calls();
      answers.push(call(bytes));
      await until("it is carried out", () => calls() > count);
    };
    await begin(MAX_BODY / 2);
    await begin(MAX_BODY / 2);
    address = "1.1.1.2";
    await begin(MAX_BODY / 2);
    await assert.rejects(call(MAX_BODY / 2 + 1024), { name: "TooManyRequests" });
    await begin(1024);
    address = "1.1.2.1";
    await begin(MAX_BODY / 2);
    answer();
    await Promise.all(answers);
    address = "1.1.1.1";
    await call(MAX_BODY / 2 + 1024);
  });

  it("counts a caller behind a trusted proxy by the address that the proxy forwards", async (t) => {
    const options = { idempotent: true, stateless: true, trustedProxies: ["127.0.0.1"] };
    const { server } = startServer(t, ({ source }) => new TextEncoder().encode(source), options);
    const url = await serveHttp(t, (request, origin) => {
      const headers = new Headers(request.headers);
      headers.set("x-forwarded-for", "9.9.9.9, 1.1.1.1");
      return server.fetch(new Request(request, { headers }), origin);
    });
    const client = startClient(t, new TestMesh(server, url));
    const { payload } = await client.call(SERVICE, new Uint8Array(), { idempotent: true });
    assert.match(new TextDecoder().decode(payload), /^1\.1\.1\.1:[1-9]\d*$/);
  });

  it("posts a request once, however long its call takes", async (t) => {
    const { server } = startServer(t, () => new Promise(() => undefined), {
      idempotent: true,
      stateless: true,
    });
    let posts = 0;
    const url = await serveHttp(t, (request, origin) => {
      posts++;
      return server.fetch(request, origin);
    });
    const client = startClient(t, new TestMesh(server, url));
    // A client of UDP sends its request again after 250 ms, and then after twice as long.
    const call = client.call(SERVICE, new Uint8Array(), { idempotent: true, timeout_ms: 1000 });
    await assert.rejects(call, ({ name }: Error) => name === "Deadline" || name === "TimedOut");
    assert.equal(posts, 1);
  });

  it("sends a request again whose connection broke, and gets the answer of its one call", async (t) => {
    const answered = Promise.withResolvers<Uint8Array>();
    let calls = 0;
    const handler = (): Promise<Uint8Array> => {
      calls++;
      return answered.promise;
    };
    const { server } = startServer(t, handler, { idempotent: true, stateless: true });
    let posts = 0;
    const url = await serveHttp(t, async (request, origin) => {
      const response = server.fetch(request, origin);
      // The first one is broken off while its call goes on.
      if (++posts === 1)
        return new Response(new ReadableStream({ pull: (body) => body.error(new Error("broken")) }));
      answered.resolve(new TextEncoder().encode("late"));
      return response;
    });
    const client = startClient(t, new TestMesh(server, url));
    const { payload } = await client.call(SERVICE, new Uint8Array(1), { idempotent: true });
    assert.equal(new TextDecoder().decode(payload), "late");
    assert.deepEqual([posts, calls], [2, 1]);
  });

  it("takes nothing that is none from a server", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload, { idempotent: true, stateless: true });
    const endless = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: (controller) => controller.enqueue(new Uint8Array(1024 * 1024)),
    });
    const wrong = [
      new Response(new Uint8Array()),
      new Response(new Uint8Array(100).fill(0x62)),
      new Response(new Uint8Array(100).fill(0x66)),
      new Response(endless),
      new Response(null, { status: 404 }),
      Response.redirect("http://127.0.0.1:9/", 307),
    ];
    const url = await serveHttp(t, async (request, origin) => wrong.shift() ?? server.fetch(request, origin));
    const client = startClient(t, new TestMesh(server, url));
    const { payload } = await client.call(SERVICE, new Uint8Array(3), { idempotent: true });
    assert.equal(payload.length, 3);
    assert.equal(wrong.length, 0);
  });

  it("waits as long as a server asks", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload, { idempotent: true });
    let asked = 0;
    const url = await serveHttp(t, async (request, origin) => {
      if (++asked > 1) return server.fetch(request, origin);
      return new Response(null, { status: 503, headers: { "retry-after": "1" } });
    });
    const client = startClient(t, new TestMesh(server, url));
    const begun = performance.now();
    await client.call(SERVICE, new Uint8Array(1), { idempotent: true });
    assert.ok(performance.now() - begun >= 1000);
  });
});
