import assert from "node:assert/strict";
import type { Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { after, before, beforeEach, describe, test } from "node:test";
import { Hono } from "hono";
import type { Input } from "../src/codec/input.ts";
import { MeshStream } from "../src/driver/streams.ts";
import { platformTimers, type Timers } from "../src/driver/timers.ts";
import { type MeshClient, mesh } from "../src/entries/hono.ts";
import { type Handler, type LogRecord, type NodeMesh, serve } from "../src/entries/node.ts";
import { leaf, member, type TestNode } from "./support.ts";

const UNOWNED = { unowned: true } as const;

describe("HTTP through the mesh", () => {
  let node: TestNode;
  let caller: NodeMesh;
  const log: LogRecord[] = [];

  before(async () => {
    node = await member({ log: (record) => log.push(record) });
    caller = await leaf(node.bootstrap);
  });
  beforeEach(() => log.splice(0));
  after(async () => {
    await caller.close();
    await node.mesh.close();
  });

  const bound = async (): Promise<MeshClient> => {
    const call = async (request: Request, options: object): Promise<object> => ({
      response: await caller.fetch(request, options),
    });
    const app = new Hono();
    const { promise, resolve } = Promise.withResolvers<MeshClient>();
    app.use(mesh(() => ({ idFromName: () => ({}), get: () => ({ call, cancel: async () => undefined }) })));
    app.get("/", (c) => c.text(`${resolve(c.var.mesh)}`));
    await app.request("/");
    return promise;
  };

  test("gives redirects as they are, refuses them, and follows none", async () => {
    let asked = 0;
    const moved: Handler = (request) => {
      asked++;
      const status = Number(new URL(request.url).pathname.slice(1));
      return new Response(null, { status, headers: { location: "https://elsewhere.example/" } });
    };
    await node.mesh.serve("moved", moved, UNOWNED);
    const { signal } = new AbortController();
    for (const client of [caller, await bound()]) {
      for (const status of [301, 302, 303, 307, 308]) {
        const url = `https://moved.mesh/${status}`;
        for (const init of [{}, { redirect: "manual" as const }]) {
          const response = await client.fetch(url, { ...UNOWNED, ...init });
          assert.deepEqual(
            [response.status, response.headers.get("location")],
            [status, "https://elsewhere.example/"],
          );
        }
        assert.equal((await client.fetch(new Request(url), UNOWNED)).status, status);
        const refused = { name: "TypeError", message: /redirect/ };
        await assert.rejects(client.fetch(url, { ...UNOWNED, redirect: "error" }), refused);
        await assert.rejects(client.fetch(url, { ...UNOWNED, redirect: "error", signal }), refused);
        await assert.rejects(client.fetch(new Request(url, { redirect: "error" }), UNOWNED), refused);
      }
      for (const status of [304, 404, 200]) {
        const response = await client.fetch(`https://moved.mesh/${status}`, {
          ...UNOWNED,
          redirect: "error",
        });
        assert.equal(response.status, status);
      }
      asked = 0;
      await assert.rejects(client.fetch("https://moved.mesh/302", { ...UNOWNED, redirect: "follow" }), {
        name: "BadConfig",
        message: /redirects are not followed/,
      });
      assert.equal(asked, 0);
    }
  });

  test("reads a URL as a browser does", async () => {
    const path: Handler = (request) => new Response(request.url);
    await node.mesh.serve("echo", path, UNOWNED);
    const urls: [url: string, seen: string][] = [
      ["http://echo.mesh?x=1", "https://echo.mesh/?x=1"],
      ["https://ECHO.Mesh", "https://echo.mesh/"],
      ["https://%65cho.mesh//a/../b c", "https://echo.mesh//b%20c"],
      [
        'https://echo.mesh/^`{}|"<>?\'"<>^`{}|#x',
        "https://echo.mesh/%5E%60%7B%7D|%22%3C%3E?%27%22%3C%3E^`{}|",
      ],
      ["https://echo.mesh/%2f%2e%2E/\u20ac", "https://echo.mesh/%2f%2e%2E/%E2%82%AC"],
    ];
    for (const client of [caller, await bound()]) {
      for (const [url, seen] of urls) {
        assert.equal(await (await client.fetch(url, UNOWNED)).text(), seen, url);
      }
    }
  });

  const HOP: Record<string, string> = {
    connection: "x-private, X-Other",
    "x-private": "secret",
    "x-other": "secret",
    "keep-alive": "timeout=5",
    "proxy-authenticate": "Basic",
    "proxy-authorization": "Basic c2VjcmV0",
    "proxy-connection": "close",
    te: "trailers",
    trailer: "x-a",
    "transfer-encoding": "chunked",
    upgrade: "h2c",
    expect: "100-continue",
    host: "other",
    "accept-encoding": "gzip",
  };

  test("keeps the fields of one connection on each side", async () => {
    const seen: string[][] = [];
    const telling: Handler = ({ headers }) => {
      seen.push([...headers.keys()]);
      return new Response(null, { headers: { ...HOP, "x-kept": "yes" } });
    };
    await node.mesh.serve("hop", telling, UNOWNED);
    const headers = { ...HOP, "x-kept": "yes" };
    const response = await caller.fetch("https://hop.mesh/", { ...UNOWNED, headers });
    assert.deepEqual(seen, [["x-kept"]]);
    assert.deepEqual([...response.headers.keys()], ["content-length", "x-kept"]);
  });

  test("carries every byte of a value", async () => {
    const value = String.fromCharCode(
      ...Array.from({ length: 0x80 }, (_, index) => 0x80 + index),
      0x41,
      0x09,
      0x42,
    );
    const back: Handler = ({ headers }) =>
      new Response(null, { headers: { "x-a": headers.get("x-a") ?? "" } });
    await node.mesh.serve("bytes", back, UNOWNED);
    const response = await caller.fetch("https://bytes.mesh/", { ...UNOWNED, headers: { "x-a": value } });
    assert.equal(response.headers.get("x-a"), value);
  });

  test("answers 500 for an answer that breaks the grammar, and the log says which field and why", async () => {
    const broken: [headers: [string, string][], reason: RegExp][] = [
      [[["content-length", "+5"]], /content-length is not 1 to 15 digits/],
      [
        [
          ["content-length", "5"],
          ["content-length", "5"],
        ],
        /content-length is not 1 to 15 digits/,
      ],
      [[["content-length", "1234567890123456"]], /content-length is not 1 to 15 digits/],
      [[["x-a", "a\u0001secret"]], /the field x-a has a control character/],
      [[[`x-${"a".repeat(255)}`, ""]], /the field x-a+ has a name of more than 256 bytes/],
    ];
    for (const [headers, reason] of broken) {
      log.splice(0);
      await node.mesh.serve("broken", () => new Response("five!", { headers }), UNOWNED);
      const response = await caller.fetch("https://broken.mesh/", UNOWNED);
      assert.equal(response.status, 500);
      assert.deepEqual(await response.json(), { title: "Internal Server Error", status: 500 });
      assert.equal(log.length, 1);
      assert.match(log[0]?.text ?? "", reason);
      assert.doesNotMatch(log[0]?.text ?? "", /secret/);
    }
  });

  test("tells the caller which field of its request is malformed", async () => {
    const headers: [string, string][] = [["x-a", "a\u0001secret"]];
    await assert.rejects(caller.fetch("https://broken.mesh/", { ...UNOWNED, headers }), {
      name: "BadInput",
      message: /^the request is malformed: the field x-a has a control character/,
    });
  });

  test("drops the body of an answer that has none", async () => {
    const bodied: Handler = () => new Response("dropped");
    await node.mesh.serve("bodied", bodied, UNOWNED);
    const head = await caller.fetch("https://bodied.mesh/", { ...UNOWNED, method: "HEAD" });
    assert.deepEqual([head.status, head.body, await head.text()], [200, null, ""]);
  });

  test("leaves no client waiting for the bytes of an answer that has none", async () => {
    const bare: Handler = (request) =>
      new Response(null, {
        status: Number(new URL(request.url).pathname.slice(1)),
        headers: { "content-length": "40" },
      });
    await node.mesh.serve("bare", bare, UNOWNED);
    for (const status of [204, 205]) {
      const response = await caller.fetch(`https://bare.mesh/${status}`, UNOWNED);
      assert.deepEqual([response.status, response.headers.get("content-length")], [status, null]);
    }
    const head = await caller.fetch("https://bare.mesh/200", { ...UNOWNED, method: "HEAD" });
    assert.equal(head.headers.get("content-length"), "40");
    const said = { headers: { "content-length": "40" } };
    const answers: Record<string, () => Response> = {
      "/200": () => new Response(null, said),
      "/205": () => new Response(null, { status: 205, ...said }),
      "/304": () => new Response(null, { status: 304, ...said }),
    };
    const fetch = (request: Request): Response =>
      answers[new URL(request.url).pathname]?.() ?? new Response("next");
    const text = await speak(fetch, "GET /200", "GET /205", "HEAD /200", "GET /304", "GET /next");
    const lengths = [...text.matchAll(/^content-length: (.*)$/gim)].map(([, length]) => length);
    assert.deepEqual(lengths.slice(0, 4), ["0", "0", "40", "40"]);
    assert.match(text, /next\r\n/);
  });

  test("answers HEAD although the source of the body does not stop", { timeout: 5_000 }, async () => {
    const stuck = (): Response =>
      new Response(new ReadableStream({ cancel: () => new Promise(() => undefined) }));
    await node.mesh.serve("stuck", stuck, { ...UNOWNED, limit: 1 });
    for (let call = 0; call < 3; call++) {
      const response = await caller.fetch("https://stuck.mesh/", { ...UNOWNED, method: "HEAD" });
      assert.equal(response.status, 200);
    }
    assert.match(await speak(stuck, "HEAD /"), /^HTTP\/1.1 200 OK/);
  });

  test("passes on no field that belongs to another connection", async () => {
    const fields = { "transfer-encoding": "chunked", connection: "keep-alive", "keep-alive": "timeout=9" };
    const text = await speak(() => new Response("body", { headers: fields }), "GET / HTTP/1.0");
    assert.doesNotMatch(text, /chunked|timeout=9|: keep-alive/i);
    assert.match(text, /\r\n\r\nbody$/);
  });

  test("answers a request that offers a protocol which the server does not speak", async () => {
    const app = caller.handler(async (request) => new Response(`${request.method} ${await request.text()}`));
    const server = await serve({ fetch: app, hostname: "127.0.0.1" });
    const ask = (head: string, body = ""): Promise<string> =>
      speakTo(server, `${head}\r\nhost: a\r\n\r\n${body}`);
    const h2c = "connection: upgrade, http2-settings, close\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk";
    const posted = await ask(`POST / HTTP/1.1\r\n${h2c}\r\ncontent-length: 3`, "abc");
    assert.match(posted, /^HTTP\/1.1 200 OK.*POST abc/s);
    const asked = await ask("GET / HTTP/1.1\r\nconnection: upgrade, close\r\nupgrade: websocket");
    assert.match(asked, /^HTTP\/1.1 200 OK.*GET /s);
    server.close();
  });

  test("takes targets of HTTP in absolute form, no others, and one host", async () => {
    const fetch = (request: Request): Response => new Response(`<${request.url}>`);
    const ask = (target: string, more = ""): Promise<string> => speak(fetch, `GET ${target} HTTP/1.1${more}`);
    assert.match(await ask("https://a.example/b?c"), /<https:\/\/a.example\/b\?c>/);
    assert.match(await ask("http://a.example"), /<http:\/\/a.example\/>/);
    assert.match(await ask("ftp://a.example"), /^HTTP\/1.1 400/);
    assert.match(await ask("/", "\r\nhost: b"), /^HTTP\/1.1 400/);
  });

  test("answers OPTIONS * at a server of the package", async () => {
    const server = await serve({ fetch: (request) => new Response(request.url), hostname: "127.0.0.1" });
    const { port } = server.address() as { port: number };
    const { request } = await import("node:http");
    const answer = await new Promise<string>((resolve, reject) => {
      const asking = request({ port, host: "127.0.0.1", method: "OPTIONS", path: "*" }, (response) => {
        response.setEncoding("utf8").on("data", resolve);
      });
      asking.on("error", reject).end();
    });
    assert.equal(answer, `http://127.0.0.1:${port}/`);
    server.close();
    server.closeAllConnections();
  });
});

/** What a server of the package writes to requests that come one after the other; the last one closes the connection. */
async function speak(fetch: (request: Request) => Response, ...lines: string[]): Promise<string> {
  const server = await serve({ fetch, hostname: "127.0.0.1" });
  const heads = lines.map((line, index) => {
    const [first = "", ...more] = (line.includes(" HTTP/") ? line : `${line} HTTP/1.1`).split("\r\n");
    const close = index === lines.length - 1 && !first.endsWith("1.0") ? ["connection: close"] : [];
    return [first, "host: a", ...more, ...close, "", ""].join("\r\n");
  });
  const text = await speakTo(server, heads.join(""));
  server.close();
  return text;
}

async function speakTo(server: Server, requests: string): Promise<string> {
  const { port } = server.address() as AddressInfo;
  const socket = connect(port, "127.0.0.1");
  socket.setTimeout(5_000, () => socket.destroy(new Error("the server closes no connection")));
  socket.write(requests);
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("latin1");
}

describe("a body of a peer that lies about its length", () => {
  for (const [what, chunks, isShort] of [
    ["longer", [3, 3], false],
    ["shorter", [3], true],
  ] as const) {
    test(`is an error when it is ${what}, and resets the stream`, async () => {
      const told: Input[] = [];
      const opened = { stream: 7, peer: new Uint8Array(32), service: "a", head: new Uint8Array() };
      const stream = new MeshStream(
        opened,
        platformTimers,
        (input) => told.push(input),
        () => undefined,
      );
      const body = new Response(stream.readable(5)).arrayBuffer();
      for (const size of chunks) stream.onData(new Uint8Array(size));
      if (isShort) stream.onEnd();
      const message = isShort ? /fewer bytes than its content-length says, which is 5/ : /more bytes/;
      await assert.rejects(body, { name: "BadMessage", message });
      assert.deepEqual(told, [{ type: "StreamReset", stream: 7, code: 0x0202 }]);
    });
  }
});

test("a stream that is given up just before the peer's end is gone once", () => {
  let gone = 0;
  const opened = { stream: 7, peer: new Uint8Array(32), service: "a", head: new Uint8Array() };
  const stream = new MeshStream(
    opened,
    platformTimers,
    () => undefined,
    () => gone++,
  );
  stream.end();
  stream.reset(1);
  stream.onEnd();
  assert.equal(gone, 1);
});

describe("whether a peer sends any bytes", () => {
  for (const [what, event, expected] of [
    ["bytes", (stream: MeshStream) => stream.onData(Uint8Array.of(1)), true],
    ["the end", (stream: MeshStream) => stream.onEnd(), false],
    ["nothing for too long", (_: MeshStream, late: () => void) => late(), true],
  ] as const) {
    test(`is told by ${what}`, async () => {
      const due: (() => void)[] = [];
      const timers: Timers = {
        after: (_, act) => {
          due.push(act);
          return { cancel: () => due.splice(0), unref: () => undefined };
        },
      };
      const opened = { stream: 7, peer: new Uint8Array(32), service: "a", head: new Uint8Array() };
      const nothing = (): void => undefined;
      const stream = new MeshStream(opened, timers, nothing, nothing);
      const hasBytes = stream.hasBytes(1);
      event(stream, () => due[0]?.());
      assert.equal(await hasBytes, expected);
      assert.deepEqual(due, []);
    });
  }
});
