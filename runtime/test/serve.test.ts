import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { Hono } from "hono";
import { AutoRouter, type IRequest } from "itty-router";
import {
  type CallContext,
  contextOf,
  type Handler,
  type LogRecord,
  type NodeMesh,
} from "../src/entries/node.ts";
import { leaf, member, type TestNode, until } from "./support.ts";

const UNOWNED = { unowned: true } as const;

describe("a service", () => {
  let node: TestNode;
  let caller: NodeMesh;
  let stranger: NodeMesh;
  const log: LogRecord[] = [];

  before(async () => {
    node = await member({ log: (record) => log.push(record) });
    caller = await leaf(node.bootstrap);
    stranger = await leaf(node.bootstrap);
  });
  beforeEach(() => log.splice(0));
  after(async () => {
    for (const mesh of [stranger, caller, node.mesh]) await mesh.close();
  });

  const statusFrom = async (from: NodeMesh, name: string, init: RequestInit = {}): Promise<number> => {
    const response = await from.fetch(`https://${name}.mesh/`, { ...UNOWNED, ...init });
    await response.body?.cancel();
    return response.status;
  };

  test("answers those on its list, and nobody else", async () => {
    let asked = 0;
    const handler = (): Response => new Response(`${++asked}`);
    await node.mesh.serve("listed", handler, { ...UNOWNED, allow: [caller.id.toUpperCase()] });
    assert.equal(await statusFrom(caller, "listed"), 200);
    const refused = await stranger.fetch("https://listed.mesh/", UNOWNED);
    assert.equal(refused.status, 403);
    assert.deepEqual(await refused.json(), { title: "Forbidden", status: 403 });
    assert.equal(asked, 1);
    assert.deepEqual(log, [
      {
        level: "warn",
        code: undefined,
        path: 0,
        text: `${stranger.id} called listed, which does not allow it`,
      },
    ]);
    await node.mesh.serve("listed", handler, { ...UNOWNED, allow: [] });
    assert.equal(await statusFrom(caller, "listed"), 403);
  });

  test("asks a function, which sees all of the request but its body", async () => {
    const allow = async (peer: string, request: Request): Promise<boolean> => {
      assert.equal(request.body, null);
      assert.equal(request.method, "POST");
      return peer === caller.id && new URL(request.url).pathname === "/open";
    };
    const handler: Handler = async (request) => new Response(await request.text());
    await node.mesh.serve("gate", handler, { ...UNOWNED, allow });
    const ask = async (from: NodeMesh, path: string): Promise<string> => {
      const init = { ...UNOWNED, method: "POST", body: "kept" };
      const response = await from.fetch(`https://gate.mesh${path}`, init);
      return response.ok ? response.text() : `${response.status}`;
    };
    assert.equal(await ask(caller, "/open"), "kept");
    assert.equal(await ask(caller, "/shut"), "403");
    assert.equal(await ask(stranger, "/open"), "403");
  });

  test("whose function fails lets nobody in", async () => {
    let asked = 0;
    const allow = (): never => {
      throw new Error("the list is gone");
    };
    await node.mesh.serve("fragile", () => new Response(`${++asked}`), { ...UNOWNED, allow });
    assert.equal(await statusFrom(caller, "fragile"), 500);
    assert.equal(asked, 0);
    assert.match(log[0]?.text ?? "", /fragile failed: Error: the list is gone/);
  });

  test("that fails before its answer gives 500, tells its log why, and lives", async () => {
    const failures: [string, Handler][] = [
      [
        "it throws",
        () => {
          throw new Error("it throws");
        },
      ],
      ["it rejects", async () => Promise.reject(new Error("it rejects"))],
      ["it throws no error", () => Promise.reject("it throws no error")],
      ["a handler gives a Response", () => undefined as never],
      ["status 0", () => Response.error()],
      ["at most 16384 bytes", () => new Response("x", { headers: { "x-long": "x".repeat(20_000) } })],
    ];
    for (const [reason, handler] of failures) {
      log.splice(0);
      await node.mesh.serve("broken", handler, UNOWNED);
      const response = await caller.fetch("https://broken.mesh/", { ...UNOWNED, method: "POST", body: "x" });
      assert.equal(response.status, 500, reason);
      assert.deepEqual(await response.json(), { title: "Internal Server Error", status: 500 });
      assert.equal(log.length, 1);
      assert.equal(log[0]?.level, "error");
      assert.equal(log[0]?.code, "HandlerFailed");
      assert.ok(log[0]?.text.includes(reason), log[0]?.text);
    }
    await node.mesh.serve("broken", () => new Response("mended"), UNOWNED);
    assert.equal(await statusFrom(caller, "broken"), 200);
  });

  test("that fails after its answer began cuts it off, and tells its log why", async () => {
    const half = (): Response =>
      new Response(
        new ReadableStream({
          pull: (controller) => {
            controller.enqueue(new TextEncoder().encode("half"));
            controller.error(new Error("the disk is gone"));
          },
        }),
      );
    await node.mesh.serve("half", half, UNOWNED);
    const response = await caller.fetch("https://half.mesh/", UNOWNED);
    assert.equal(response.status, 200);
    await assert.rejects(response.text(), { class: "Service" });
    await until("the log has it", () => log.length > 0);
    assert.match(log[0]?.text ?? "", /half failed: Error: the disk is gone/);
    assert.equal(await statusFrom(caller, "half"), 200);
  });

  test("answers no more than its limit at a time", async () => {
    const free = Promise.withResolvers<void>();
    const full = Promise.withResolvers<void>();
    let running = 0;
    const slow = async (): Promise<Response> => {
      if (++running === 2) full.resolve();
      await free.promise;
      return new Response("done");
    };
    await node.mesh.serve("limited", slow, { ...UNOWNED, limit: 2 });
    const first = [statusFrom(caller, "limited"), statusFrom(stranger, "limited")];
    await full.promise;
    const refused = await caller.fetch("https://limited.mesh/", UNOWNED);
    assert.equal(refused.status, 503);
    assert.equal(refused.headers.get("retry-after"), "1");
    free.resolve();
    assert.deepEqual(await Promise.all(first), [200, 200]);
    assert.equal(await statusFrom(caller, "limited"), 200);
    assert.equal(running, 3);
  });

  test("counts requests of which it is not known yet whether they have a body", async () => {
    await node.mesh.serve("undecided", () => new Response("done"), { ...UNOWNED, limit: 1 });
    const abort = new AbortController();
    const body = new ReadableStream({ pull: () => new Promise(() => undefined) });
    const init = { ...UNOWNED, method: "DELETE", body, duplex: "half", signal: abort.signal } as const;
    const undecided = caller.fetch("https://undecided.mesh/", init);
    await until("it is full", async () => (await statusFrom(caller, "undecided")) === 503);
    abort.abort();
    await assert.rejects(undecided, { name: "AbortError" });
    await until("it is free", async () => (await statusFrom(caller, "undecided")) === 200);
  });

  test("is free again when its callers gave up on handlers that never answer", async () => {
    const started = Promise.withResolvers<void>();
    let isStuck = true;
    const stuck = (): Response | Promise<Response> => {
      if (!isStuck) return new Response("free");
      started.resolve();
      return new Promise(() => undefined);
    };
    await node.mesh.serve("stuck", stuck, { ...UNOWNED, limit: 1 });
    const abort = new AbortController();
    const request = caller.fetch("https://stuck.mesh/", { ...UNOWNED, signal: abort.signal });
    await started.promise;
    isStuck = false;
    abort.abort();
    await assert.rejects(request, { name: "AbortError" });
    await until("it is free", async () => (await statusFrom(caller, "stuck")) === 200);
  });

  test("may read its request after it has answered", async () => {
    const read = Promise.withResolvers<string>();
    const later: Handler = (request, { waitUntil }) => {
      waitUntil(request.text().then(read.resolve));
      return new Response("answered");
    };
    await node.mesh.serve("later", later, UNOWNED);
    const body = new Uint8Array(200_000).fill(120);
    const init = { ...UNOWNED, method: "POST", body };
    assert.equal(await (await caller.fetch("https://later.mesh/", init)).text(), "answered");
    assert.equal((await read.promise).length, body.length);
  });

  test("has options that are checked", async () => {
    const wrong: [object, RegExp][] = [
      [{ weight: 2 }, /weight is a number from 0 to 1/],
      [{ weight: Number.NaN }, /weight/],
      [{ version: "v".repeat(65) }, /version is a text of at most 64 bytes/],
      [{ replicas: 4 }, /replicas is a whole number from 0 to 3/],
      [{ limit: 0 }, /limit is a whole number from 1/],
      [{ allow: "everybody" }, /allow is a list of peer ids, or a function/],
      [{ allow: ["everybody"] }, /allow must be 64 hexadecimal digits; got 9/],
    ];
    for (const [options, message] of wrong) {
      await assert.rejects(
        node.mesh.serve("wrong", () => new Response(), { ...UNOWNED, ...options }),
        { name: "BadConfig", message },
      );
    }
    await assert.rejects(node.mesh.serve("wrong", "handler" as never, UNOWNED), /a handler is a function/);
    await assert.rejects(node.mesh.find("wrong", UNOWNED), { name: "NoProvider" });
  });
});

describe("anything with a fetch handler serves", () => {
  let node: TestNode;
  let caller: NodeMesh;

  before(async () => {
    node = await member();
    caller = await leaf(node.bootstrap);
  });
  after(async () => {
    await caller.close();
    await node.mesh.close();
  });

  /** Posts a body to a path and returns what the app made of it. */
  async function answerOf(name: string, fetch: Handler): Promise<string> {
    await node.mesh.serve(name, fetch, UNOWNED);
    const init = { ...UNOWNED, method: "POST", body: "body" };
    const response = await caller.fetch(`https://${name}.mesh/items/7?q=1`, init);
    return `${response.status} ${response.headers.get("x-kind")} ${await response.text()}`;
  }

  const expected = (kind: string): string => `201 ${kind} 7 1 body ${caller.id} session`;

  test("a plain function", async () => {
    const plain: Handler = async (request, { caller, assurance }) => {
      const url = new URL(request.url);
      const parts = [url.pathname.slice("/items/".length), url.searchParams.get("q"), await request.text()];
      return new Response([...parts, caller, assurance].join(" "), {
        status: 201,
        headers: { "x-kind": "plain" },
      });
    };
    assert.equal(await answerOf("plain", plain), expected("plain"));
  });

  test("a Hono app", async () => {
    const app = new Hono();
    app.post("/items/:id", async (c) => {
      const context = contextOf(c.req.raw);
      const parts = [c.req.param("id"), c.req.query("q"), await c.req.text()];
      return c.text([...parts, context?.caller, context?.assurance].join(" "), 201, { "x-kind": "hono" });
    });
    assert.equal(await answerOf("hono", app.fetch), expected("hono"));
    const unknown = await caller.fetch("https://hono.mesh/unknown", UNOWNED);
    assert.equal(unknown.status, 404);
  });

  test("an itty router", async () => {
    const router = AutoRouter();
    // Its handlers get a proxy of the request, and what follows it as it is.
    router.post("/items/:id", async (request: IRequest, { caller, assurance }: CallContext) => {
      const parts = [request.params.id, request.query.q, await request.text()];
      const text = [...parts, caller, assurance].join(" ");
      return new Response(text, { status: 201, headers: { "x-kind": "itty" } });
    });
    assert.equal(await answerOf("itty", router.fetch), expected("itty"));
  });

  test("and a request that did not come over the mesh has no caller", () => {
    assert.equal(contextOf(new Request("https://plain.mesh/")), undefined);
  });
});
