import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { type CallContext, contextOf, type Handler } from "../src/driver/serve.ts";
import { upgradeWebSocket } from "../src/entries/node.ts";
import { createRpcClient, preSharedKey } from "../src/entries/rpc-node.ts";
import { startFetchServer, startStage, UNOWNED, URL_OF_SERVICE, WAYS } from "./rpc-fetch-support.ts";
import { CALLER, KEY, NETWORK, SERVICE } from "./rpc-support.ts";

/** What a handler is asked. */
interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
  readonly hasBody: boolean;
}

/** An exchange that is the same by RPC as in a session. */
interface Row {
  readonly name: string;
  readonly path?: string;
  readonly init?: RequestInit;
  readonly answer?: () => Response | Promise<Response>;
  /** Whether its length is told if its end is there within 10 ms: on a busy machine it is not. */
  readonly isTimed?: boolean;
}

const BYTES = Uint8Array.from({ length: 256 }, (_, at) => at);
const LONG = new Uint8Array(300_000).map((_, at) => at * 7 + (at >> 8));

function streamed(...parts: readonly (string | Uint8Array)[]): ReadableStream<Uint8Array> {
  const left = parts.map((part) => (typeof part === "string" ? new TextEncoder().encode(part) : part));
  return new ReadableStream({
    async pull(controller) {
      await new Promise((resolve) => setImmediate(resolve));
      const part = left.shift();
      if (part === undefined) controller.close();
      else controller.enqueue(part);
    },
  });
}

function broken(): Response {
  let isBegun = false;
  return new Response(
    new ReadableStream({
      pull(controller) {
        if (isBegun) controller.error(new Error("broken"));
        else controller.enqueue(new Uint8Array(20_000));
        isBegun = true;
      },
    }),
  );
}

const ROWS: readonly Row[] = [
  { name: "GET", path: "/a/b?c=d&e", init: { headers: { accept: "text/plain", "x-a": "1" } } },
  { name: "a path that no URL has", path: "/{a}?'b'//../c" },
  { name: "HEAD with a length", init: { method: "HEAD" }, answer: () => head("5") },
  { name: "HEAD with a body that is dropped", init: { method: "HEAD" }, answer: () => new Response("body") },
  { name: "OPTIONS", init: { method: "OPTIONS" } },
  { name: "PROPFIND", init: { method: "PROPFIND" } },
  { name: "POST of text", init: { method: "POST", body: "ping" } },
  { name: "POST of bytes", init: { method: "POST", body: BYTES } },
  { name: "POST without a body", init: { method: "POST" } },
  { name: "PUT of a form", init: { method: "PUT", body: new URLSearchParams({ a: "b c" }) } },
  { name: "DELETE", init: { method: "DELETE" } },
  { name: "DELETE with a body", init: { method: "DELETE", body: "which" } },
  { name: "PATCH", init: { method: "PATCH", body: "patch" } },
  { name: "a body of 64 KiB", init: { method: "POST", body: LONG.slice(0, 65_536) } },
  { name: "fields of one hop", init: { headers: { connection: "x-b", "x-b": "1", te: "trailers" } } },
  { name: "every byte of a value", init: { headers: { "x-a": "a\tb\x80\xff" } } },
  { name: "an empty answer", answer: () => new Response() },
  { name: "an answer of bytes", answer: () => new Response(BYTES) },
  { name: "204 with a length", answer: () => head("0", 204) },
  { name: "205", answer: () => new Response(null, { status: 205 }) },
  { name: "304 with a length", answer: () => head("77", 304) },
  { name: "404", answer: () => new Response("nothing", { status: 404 }) },
  { name: "599", answer: () => new Response("far", { status: 599 }) },
  {
    name: "a redirect",
    answer: () => new Response(null, { status: 307, headers: { location: "https://elsewhere.example/" } }),
  },
  {
    name: "a redirect that is refused",
    init: { redirect: "error" },
    answer: () => Response.redirect("https://a.b"),
  },
  { name: "cookies", answer: () => cookies("a=1; Path=/", "b=2, c", "a=3") },
  { name: "a body in parts", isTimed: true, answer: () => new Response(streamed("one", "", "two")) },
  { name: "a long body", answer: () => new Response(LONG) },
  {
    name: "a long body in parts",
    isTimed: true,
    answer: () => new Response(streamed(LONG, "x", LONG, LONG)),
  },
  { name: "a body of 16 KiB", answer: () => new Response(LONG.slice(0, 16_384)) },
  { name: "a body of 64 KiB that is answered", answer: () => new Response(LONG.slice(0, 65_536)) },
  { name: "a body that is shorter than its length", answer: () => sized("10", "short") },
  { name: "a body that is longer than its length", answer: () => sized("2", "longer") },
  { name: "a length that is none", answer: () => sized("+5", "short") },
  {
    name: "a head that is too long",
    answer: () => new Response("", { headers: { "x-a": "a".repeat(20_000) } }),
  },
  {
    name: "a handler that throws",
    answer: () => {
      throw new Error("on purpose");
    },
  },
  { name: "a handler that gives nothing", answer: () => undefined as unknown as Response },
  { name: "a status that cannot travel", answer: () => Response.error() },
  { name: "a body that breaks off", answer: broken },
];

function head(length: string, status = 200): Response {
  return new Response(null, { status, headers: { "content-length": length, etag: '"1"' } });
}

function sized(length: string, body: string): Response {
  return new Response(body, { headers: { "content-length": length } });
}

function cookies(...values: readonly string[]): Response {
  const response = new Response("with cookies");
  for (const value of values) response.headers.append("set-cookie", value);
  return response;
}

/** What a caller gets. */
async function outcomeOf(asking: Promise<Response>, { isTimed = false }: Row): Promise<unknown> {
  try {
    const response = await asking;
    if (isTimed) response.headers.delete("content-length");
    const { status, headers } = response;
    const body = await response.arrayBuffer().then(
      (bytes) => Buffer.from(bytes).toString("latin1"),
      (error: Error) => error.name,
    );
    return { status, headers: [...headers], body };
  } catch (error) {
    return (error as Error).name;
  }
}

for (const way of WAYS) {
  describe(`HTTP by RPC over ${way}`, () => {
    it("is the same as in sessions", async (t) => {
      const seen: Seen[] = [];
      let row: Row = { name: "" };
      const handler: Handler = async (request) => {
        const { method, url, headers } = request;
        const hasBody = request.body !== null;
        seen.push({ method, url, headers: [...headers], body: await request.text(), hasBody });
        return row.answer?.() ?? new Response(`answer to ${method}`);
      };
      const { caller, client } = await startStage(t, handler, { way });
      for (row of ROWS) {
        const url = `${URL_OF_SERVICE}${row.path ?? "/"}`;
        const expected = await outcomeOf(caller.fetch(url, { ...UNOWNED, ...row.init }), row);
        assert.deepEqual(await outcomeOf(client.fetch(url, row.init), row), expected, row.name);
        const [first, second, ...more] = seen.splice(0);
        assert.ok(first !== undefined && more.length === 0, row.name);
        assert.deepEqual(second, first, row.name);
      }
    });

    it("tells the handler who calls", async (t) => {
      const contexts: unknown[] = [];
      const handler: Handler = (request, context) => {
        const { caller, assurance, env } = context as CallContext<unknown>;
        contexts.push({ caller, assurance, env, isKnown: contextOf(request) === context });
        context.waitUntil(Promise.resolve());
        return new Response();
      };
      const { caller, client } = await startStage(t, handler, { way, context: { env: { A: 1 } } });
      await caller.fetch(URL_OF_SERVICE, UNOWNED);
      await client.fetch(URL_OF_SERVICE);
      const known = { caller: caller.id, isKnown: true };
      assert.deepEqual(contexts, [
        { ...known, assurance: "session", env: {} },
        { ...known, assurance: "ticket", env: { A: 1 } },
      ]);
    });
  });
}

describe("a service that carries HTTP", () => {
  it("speaks WebSocket in sessions, and keeps the paths of the RPC to itself", async (t) => {
    const paths: string[] = [];
    const { caller } = await startStage(t, (request) => {
      paths.push(new URL(request.url).pathname);
      const { socket, response } = upgradeWebSocket(request);
      socket.addEventListener("message", ({ data }) => socket.send(data));
      return response;
    });
    const socket = caller.webSocket(`wss://${SERVICE}.mesh/talk`, [], UNOWNED);
    socket.addEventListener("open", () => socket.send("ping"));
    const [{ data }] = (await once(socket, "message")) as [MessageEvent];
    assert.equal(data, "ping");
    socket.close();
    for (const path of ["/keys", "/call", "/other"]) {
      const url = `${URL_OF_SERVICE}/.well-known/selfsame-rpc${path}`;
      assert.equal((await caller.fetch(url, { ...UNOWNED, method: "POST" })).status, 404);
    }
    const url = `${URL_OF_SERVICE}/.well-known/selfsame-rpc`;
    const response = await caller.fetch(url, { ...UNOWNED, method: "POST" });
    assert.equal(response.headers.get("selfsame-rpc-carries"), "http");
    await response.body?.cancel();
    assert.deepEqual(paths, ["/talk"]);
  });

  it("is asked with a pre-shared key", async (t) => {
    const { address } = await startFetchServer(t, ({ url }, { caller }) => new Response(`${caller} ${url}`));
    const tickets = preSharedKey({
      network: NETWORK,
      caller: CALLER,
      services: { [SERVICE]: { key: KEY, address } },
    });
    t.after(() => tickets.close());
    const client = createRpcClient({ tickets, allowPrivate: true });
    t.after(() => client.close());
    const response = await client.fetch(`${URL_OF_SERVICE}/a`);
    assert.equal(await response.text(), `${CALLER} ${URL_OF_SERVICE}/a`);
  });
});
