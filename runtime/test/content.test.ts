import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import { after, before, beforeEach, describe, test } from "node:test";
import { brotliCompressSync, deflateSync, gunzipSync, gzipSync, zstdCompressSync } from "node:zlib";
import { Hono } from "hono";
import { type MeshClient, mesh } from "../src/entries/hono.ts";
import { type Handler, type LogRecord, type NodeMesh, serve } from "../src/entries/node.ts";
import { leaf, member, type TestNode, until } from "./support.ts";

const UNOWNED = { unowned: true } as const;
const TEXT = "words that are encoded, words that are decoded; ".repeat(20);
const ENCODERS = {
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
} as const;

describe("the label and the length of a body", () => {
  let node: TestNode;
  let caller: NodeMesh;
  let origin: Server;
  let url: string;
  const log: LogRecord[] = [];

  before(async () => {
    node = await member({ log: (record) => log.push(record) });
    caller = await leaf(node.bootstrap);
    origin = createServer((request, response) => {
      const coding = (request.url ?? "/").slice(1) as keyof typeof ENCODERS;
      const bytes = coding in ENCODERS ? ENCODERS[coding](TEXT) : Buffer.from(TEXT);
      response.writeHead(200, {
        "content-encoding": coding,
        "content-length": bytes.length,
        "content-type": "text/plain",
      });
      response.end(bytes);
    });
    await new Promise<void>((resolve) => origin.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(origin.address() as { port: number }).port}`;
  });
  beforeEach(() => log.splice(0));
  after(async () => {
    origin.close();
    origin.closeAllConnections();
    await caller.close();
    await node.mesh.close();
  });

  const copies: Record<string, (response: Response) => Response> = {
    "as it is": (response) => response,
    copied: (response) => new Response(response.body, response),
    "copied twice": (response) => new Response(new Response(response.body, response).body, response),
  };
  for (const coding of Object.keys(ENCODERS)) {
    for (const [how, copy] of Object.entries(copies)) {
      test(`fit what fetch decoded: ${coding}, ${how}`, async () => {
        await node.mesh.serve("front", async () => copy(await fetch(`${url}/${coding}`)), UNOWNED);
        const response = await caller.fetch("https://front.mesh/", UNOWNED);
        assert.equal(response.headers.get("content-encoding"), null);
        assert.equal(response.headers.get("content-type"), "text/plain");
        assert.equal(await response.text(), TEXT);
        // It is unknown where the origin took its time.
        assert.ok([null, `${TEXT.length}`].includes(response.headers.get("content-length")));
      });
    }
  }

  for (const [coding, encode] of Object.entries(ENCODERS)) {
    test(`stay what a handler that encodes says: ${coding}`, async () => {
      const bytes = encode(TEXT);
      const headers = { "content-encoding": coding, "content-length": `${bytes.length}` };
      await node.mesh.serve("own", () => new Response(bytes, { headers }), UNOWNED);
      // What comes out of the mesh is passed on as it is, too.
      await node.mesh.serve("front", () => node.mesh.fetch("https://own.mesh/", UNOWNED), UNOWNED);
      for (const name of ["own", "front"]) {
        const response = await caller.fetch(`https://${name}.mesh/`, UNOWNED);
        assert.equal(response.headers.get("content-encoding"), coding);
        assert.equal(response.headers.get("content-length"), `${bytes.length}`);
        assert.deepEqual(Buffer.from(await response.arrayBuffer()), bytes);
      }
    });
  }

  test("stay those of a coding that the platform leaves", async () => {
    await node.mesh.serve("front", () => fetch(`${url}/unknown`), UNOWNED);
    const response = await caller.fetch("https://front.mesh/", UNOWNED);
    assert.equal(response.headers.get("content-encoding"), "unknown");
    assert.equal(await response.text(), TEXT);
  });

  test("fit at a server of the package", async () => {
    for (const copy of Object.values(copies)) {
      const server = await serve({
        fetch: async () => copy(await fetch(`${url}/gzip`)),
        hostname: "127.0.0.1",
      });
      const { port } = server.address() as { port: number };
      const response = await fetch(`http://127.0.0.1:${port}/`);
      assert.equal(response.headers.get("content-encoding"), null);
      assert.equal(await response.text(), TEXT);
      server.close();
      server.closeAllConnections();
    }
  });

  for (const coding of ["gzip", "deflate", "zstd"] as const) {
    test(`fit what a handler encodes, however it is cut: ${coding}`, async () => {
      const bytes = new Uint8Array(ENCODERS[coding](TEXT));
      const cut = [new Uint8Array(), bytes.subarray(0, 1), new Uint8Array(), bytes.subarray(1)];
      const body = (): ReadableStream => {
        const chunks = [...cut];
        const pull = (controller: ReadableStreamDefaultController): void => {
          const chunk = chunks.shift();
          if (chunk === undefined) controller.close();
          else controller.enqueue(chunk);
        };
        return new ReadableStream({ pull }, { highWaterMark: 0 });
      };
      const headers = { "content-encoding": coding };
      await node.mesh.serve("cut", () => new Response(body(), { headers }), UNOWNED);
      const response = await caller.fetch("https://cut.mesh/", UNOWNED);
      assert.equal(response.headers.get("content-encoding"), coding);
      assert.deepEqual(new Uint8Array(await response.arrayBuffer()), bytes);
    });
  }

  test("fit through middleware that compresses", async () => {
    const compressing: Handler = () => {
      const stream = new Blob([TEXT]).stream().pipeThrough(new CompressionStream("gzip"));
      return new Response(stream, { headers: { "content-encoding": "gzip" } });
    };
    await node.mesh.serve("own", compressing, UNOWNED);
    const response = await caller.fetch("https://own.mesh/", UNOWNED);
    assert.equal(gunzipSync(Buffer.from(await response.arrayBuffer())).toString(), TEXT);
  });

  /** What a service is told of the length of a body, and how many bytes it gets. */
  const measuring: Handler = async (request) => {
    const said = request.headers.get("content-length");
    return new Response(`${said} ${(await request.arrayBuffer()).byteLength}`);
  };

  const bound = async (): Promise<MeshClient> => {
    const call = async (request: Request, options: object): Promise<object> => ({
      response: await caller.fetch(request, options),
    });
    const app = new Hono();
    const { promise, resolve } = Promise.withResolvers<MeshClient>();
    app.use(mesh(() => ({ idFromName: () => ({}), get: () => ({ call }) })));
    app.get("/", (c) => c.text(`${resolve(c.var.mesh)}`));
    await app.request("/");
    return promise;
  };

  const bodies: [what: string, init: RequestInit, answer: string][] = [
    ["a text", { body: "\u20ac!" }, "4 4"],
    ["a form", { body: new URLSearchParams({ a: "\u20ac" }) }, "11 11"],
    ["a buffer", { body: new ArrayBuffer(70_000) }, "70000 70000"],
    ["a view", { body: new Uint8Array(9).subarray(2, 5) }, "3 3"],
    ["a Blob", { body: new Blob(["blob"]) }, "4 4"],
    ["an empty text", { body: "" }, "0 0"],
    ["none", {}, "0 0"],
    ["none, with another length", { headers: { "content-length": "7" } }, "0 0"],
    ["none, of PUT", { method: "PUT" }, "0 0"],
    ["none, of DELETE", { method: "DELETE" }, "null 0"],
    ["none, of GET", { method: "GET", headers: { "content-length": "7" } }, "null 0"],
    ["a text with another length", { body: "text", headers: { "content-length": "7" } }, "4 4"],
  ];
  test("are known to the service where the caller knows them", async () => {
    await node.mesh.serve("measure", measuring, UNOWNED);
    for (const client of [caller, await bound()]) {
      for (const [what, init, answer] of bodies) {
        const asked = { method: "POST", ...init };
        const response = await client.fetch("https://measure.mesh/", { ...UNOWNED, ...asked });
        assert.equal(await response.text(), answer, what);
        const request = new Request("https://measure.mesh/", asked);
        // A text of a Request is there at once; what is beyond the bound for repetitions is not read ahead.
        if (what === "a buffer" || what === "a text with another length") continue;
        assert.equal(await (await client.fetch(request, UNOWNED)).text(), answer, `${what} of a Request`);
      }
    }
  });

  test("of a stream is what its headers say, or unknown", async () => {
    await node.mesh.serve("measure", measuring, UNOWNED);
    const ask = async (headers: Record<string, string>): Promise<string> => {
      const body = new Blob(["stream"]).stream();
      const response = await caller.fetch("https://measure.mesh/", {
        ...UNOWNED,
        method: "POST",
        body,
        headers,
      });
      return response.text();
    };
    assert.equal(await ask({}), "null 6");
    assert.equal(await ask({ "content-length": "6" }), "6 6");
    for (const length of ["5", "7"]) {
      await assert.rejects(ask({ "content-length": length }), {
        name: "BadMessage",
        message: /bytes than its content-length/,
      });
    }
  });

  test("of an answer is known where all of it is there at once", async () => {
    const handlers: [Handler, string | null][] = [
      [() => new Response("\u20ac"), "3"],
      [() => new Response(null), "0"],
      [() => new Response(new Uint8Array(9000)), "9000"],
      [() => new Response(new Uint8Array(90_000)), null],
      [() => new Response(new Uint8Array(90_000), { headers: { "content-length": "90000" } }), "90000"],
      [() => new Response(null, { status: 204 }), null],
      [
        () =>
          new Response(new Uint8Array(1), {
            headers: [...Array(128).keys()].map((n): [string, string] => [`x-${n}`, ""]),
          }),
        null,
      ],
    ];
    for (const [handler, length] of handlers) {
      await node.mesh.serve("answers", handler, UNOWNED);
      const response = await caller.fetch("https://answers.mesh/", UNOWNED);
      await response.arrayBuffer();
      assert.equal(response.headers.get("content-length"), length, `${handler}`);
    }
    const body = (): Response => new Response("head", { headers: { "content-length": "4" } });
    await node.mesh.serve("answers", body, UNOWNED);
    const head = await caller.fetch("https://answers.mesh/", { ...UNOWNED, method: "HEAD" });
    assert.equal(head.headers.get("content-length"), "4");
    assert.equal(await head.text(), "");
  });

  test("that do not fit fail as a handler that fails late", async () => {
    const pieces = (): ReadableStream<Uint8Array<ArrayBuffer>> => new Blob([new Uint8Array(40_000)]).stream();
    const handlers: Handler[] = [
      () => new Response("four", { headers: { "content-length": "3" } }),
      () => new Response("four", { headers: { "content-length": "5" } }),
      () => new Response(null, { headers: { "content-length": "5" } }),
      () => new Response(pieces(), { headers: { "content-length": "39999" } }),
      () => new Response(pieces(), { headers: { "content-length": "40001" } }),
    ];
    for (const handler of handlers) {
      log.splice(0);
      await node.mesh.serve("wrong", handler, UNOWNED);
      const read = async (): Promise<ArrayBuffer> =>
        (await caller.fetch("https://wrong.mesh/", { ...UNOWNED, retries: 0 })).arrayBuffer();
      await assert.rejects(read(), { class: "Service" });
      await until("the log has it", () => log.length > 0);
      assert.match(log[0]?.text ?? "", /wrong failed: .*bytes than its content-length/);
    }
  });
});
