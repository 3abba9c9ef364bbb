import assert from "node:assert/strict";
import type { Server } from "node:http";
import { after, before, describe, test } from "node:test";
import { Hono } from "hono";
import { mesh } from "../src/entries/hono.ts";
import { join, memory, type NodeMesh, serve } from "../src/entries/node.ts";
import { freePort, leaf } from "./support.ts";

const UNOWNED = { unowned: true } as const;
const TRIED = [{ peer: "ab".repeat(32), reason: "Disconnected" }];

describe("a Hono app in Node", () => {
  let node: NodeMesh;
  let server: Server;
  let url: string;
  const app = new Hono();

  before(async () => {
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    node = await join({
      network: "test",
      storage: memory(),
      address: `ws://127.0.0.1:${port}`,
      allowPrivate: true,
    });
    app.use(mesh(() => node));
    app.get("/caller", (c) => c.text(c.var.caller ?? "nobody"));
    app.get("/nobody", (c) => c.var.mesh.fetch("https://nobody.mesh/", UNOWNED));
    app.get("/through", async (c) =>
      c.text(await (await c.var.mesh.fetch("https://app.mesh/caller", UNOWNED)).text()),
    );
    server = await serve({ fetch: node.handler(app.fetch), port, hostname: "127.0.0.1" });
    await node.serve("app", (request) => app.fetch(request), UNOWNED);
  });
  after(async () => {
    server.close();
    server.closeAllConnections();
    await node.close();
  });

  test("knows the caller of a request from the mesh, and of no other", async () => {
    const other = await leaf(`${url.replace("http", "ws")}/.mesh#${node.id}`);
    const response = await other.fetch("https://app.mesh/caller", UNOWNED);
    assert.equal(await response.text(), other.id);
    await other.close();
    const forged = { headers: { caller: "x", "x-caller": "x", "cf-caller": "x" } };
    assert.equal(await (await fetch(`${url}/caller`, forged)).text(), "nobody");
  });

  test("calls through c.var.mesh", async () => {
    assert.equal(await (await fetch(`${url}/through`)).text(), node.id);
  });

  test("tells its own caller why the mesh did not answer", async () => {
    const response = await fetch(`${url}/nobody`);
    assert.equal(response.status, 503);
    assert.equal(response.headers.get("content-type"), "application/problem+json");
    assert.equal(((await response.json()) as { error: string }).error, "NoProvider");
  });

  test("accepts peers by WebSocket and by POST at /.mesh alone", async () => {
    const other = await leaf(`${url}/.mesh#${node.id}`);
    assert.ok((await other.status()).peers.includes(node.id));
    await other.close();
    assert.equal((await fetch(`${url}/.mesh`)).status, 405);
    assert.equal((await fetch(`${url}/.mesh/other`)).status, 404);
  });

  test("gives a POST at /.mesh to the node when the app is served by itself", async () => {
    const response = await app.request("/.mesh", { method: "POST" });
    assert.equal(response.status, 415);
  });
});

describe("the middleware over a namespace of nodes", () => {
  const seen: string[] = [];
  const stub = (name: string): object => ({
    fetch: async () => new Response(name),
    call: async (request: Request, options: object) => {
      seen.push(`${name} ${request.method} ${request.url} ${JSON.stringify(options)}`);
      if (request.url.includes("fail"))
        return { error: { code: 0x0801, message: "nobody serves this name", tried: TRIED } };
      return { response: new Response("answer") };
    },
  });
  const app = new Hono();
  app.use(
    mesh(() => ({ idFromName: (name: string) => name as never, get: (id: string) => stub(id) }), {
      nodes: ["a", "b"],
    }),
  );
  app.get("/call", async (c) => {
    const response = await c.var.mesh.service("check", UNOWNED).fetch("/x?y", {
      method: "PUT",
      body: "z",
      key: "k",
      retries: 1,
    });
    return c.text(await response.text());
  });
  app.get("/fail", (c) => c.var.mesh.fetch("https://fail.mesh/"));

  test("routes to configured nodes and to no other", async () => {
    assert.equal(await (await app.request("/.mesh")).text(), "a");
    assert.equal(await (await app.request("/.mesh/b")).text(), "b");
    assert.equal((await app.request("/.mesh/c")).status, 404);
  });

  test("calls through the binding with the options of the call, and errors keep what they know", async () => {
    assert.equal(await (await app.request("/call")).text(), "answer");
    assert.equal(seen[0], `a PUT https://check.mesh/x?y {"unowned":true,"key":"k","retries":1}`);
    const response = await app.request("/fail");
    assert.equal(response.status, 503);
    const { error, tried } = (await response.json()) as { error: string; tried: unknown };
    assert.equal(error, "NoProvider");
    assert.deepEqual(tried, TRIED);
  });
});
