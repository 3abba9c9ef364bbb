/** Services of a Durable Object: entrypoints that fail, who may call, what is changed while they run. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Hono } from "hono";
import type { MeshError } from "selfsame";
import { mesh } from "selfsame/hono";
import type { Mesh } from "selfsame/slim";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { joinAsLeaf } from "./leaf.ts";
import { StubSocket } from "./socket.ts";
import { Failing, type Node, SERVICES } from "./worker.ts";

const { NODE } = env;

/** The node's name is new for each test. */
let round = 0;
let name: string;
let leaf: Mesh | undefined;

beforeEach(() => {
  round += 1;
  name = `serving-${round}`;
  vi.stubGlobal("WebSocket", StubSocket);
});

afterEach(async () => {
  await leaf?.close();
  leaf = undefined;
  vi.unstubAllGlobals();
});

const stub = (): DurableObjectStub<Node> => NODE.get(NODE.idFromName(name));

async function joined(): Promise<Mesh> {
  leaf = await joinAsLeaf(name);
  return leaf;
}

const rejected = (promise: Promise<unknown>): Promise<MeshError> =>
  promise.then(
    () => expect.unreachable("it does not fail"),
    (error) => error as MeshError,
  );

describe("an entrypoint that fails", () => {
  beforeEach(() => {
    SERVICES[name] = { failing: "Failing" };
  });

  it("before its answer gives 500 to its caller, and the node lives", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const leaf = await joined();
    const response = await leaf.fetch("https://failing.mesh/throw");
    expect(response.status).toBe(500);
    expect(await response.json()).toEqual({ title: "Internal Server Error", status: 500 });
    expect(log).toHaveBeenCalledWith(expect.stringContaining("it throws on purpose"));
    log.mockRestore();
    expect((await leaf.fetch("https://echo.mesh/")).status).toBe(200);
  });

  it("after its answer began cuts it off, and the node lives", async () => {
    const leaf = await joined();
    const response = await leaf.fetch("https://failing.mesh/half");
    expect(response.status).toBe(200);
    expect((await rejected(response.text())).class).toBe("Service");
    expect((await leaf.fetch("https://echo.mesh/")).status).toBe(200);
  });

  it("to answer at all is cut at the deadline, and is told so", async () => {
    const leaf = await joined();
    const { id } = await stub().status();
    const error = await rejected(leaf.fetch("https://failing.mesh/hang-1", { timeout_ms: 300 }));
    expect(error.name).toBe("Deadline");
    expect(error.tried).toEqual([{ peer: id, reason: "Deadline" }]);
    await vi.waitFor(() => expect(Failing.aborted).toContain("/hang-1"), 5000);
    const request = new Request("https://failing.mesh/hang-2");
    const result = await stub().call(request, { timeout_ms: 300 });
    expect(result).toMatchObject({ error: { code: 0x0806, tried: [{ peer: id, reason: "Deadline" }] } });
    await vi.waitFor(() => expect(Failing.aborted).toContain("/hang-2"), 5000);
  });
});

describe("a service with a list of callers", () => {
  it("answers those on it, and 403 to all others", async () => {
    SERVICES[name] = {
      "for-nobody": { entrypoint: "Echo", allow: [] },
      "for-post": { entrypoint: "Echo", allow: async (_, { method }) => method === "POST" },
    };
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const leaf = await joined();
    const status = async (service: string, method: string): Promise<number> =>
      (await leaf.fetch(`https://${service}.mesh/`, { method })).status;
    expect(await status("for-nobody", "GET")).toBe(403);
    expect(await status("for-post", "GET")).toBe(403);
    expect(await status("for-post", "POST")).toBe(200);
    expect(warn).toHaveBeenCalledWith(expect.stringContaining(`${leaf.id} called for-nobody`));
    warn.mockRestore();
  });
});

describe("a service that is changed while it runs", () => {
  it("keeps the change while the node sleeps, until it is configured otherwise", async () => {
    SERVICES[name] = { canary: { entrypoint: "Echo", version: "2", weight: 0.1 } };
    const canary = async (): Promise<unknown> =>
      (await stub().status()).services.find((service) => service.name === "canary");
    expect(await canary()).toMatchObject({ version: "2", weight: 0.1 });
    await stub().publish("canary", { weight: 0.5 });
    await stub().publish("canary", { version: "2.1" });
    expect(await canary()).toMatchObject({ version: "2.1", weight: 0.5 });
    await evictDurableObject(stub());
    expect(await canary()).toMatchObject({ version: "2.1", weight: 0.5 });
    SERVICES[name] = { canary: { entrypoint: "Echo", version: "3", weight: 1 } };
    await evictDurableObject(stub());
    expect(await canary()).toMatchObject({ version: "3", weight: 1 });
  });

  it("stays withdrawn while the node sleeps, until it is published again", async () => {
    const leaf = await joined();
    expect((await leaf.fetch("https://echo.mesh/")).status).toBe(200);
    await stub().withdraw("echo");
    expect((await stub().status()).services).toEqual([]);
    expect((await leaf.fetch("https://echo.mesh/")).status).toBe(200);
    await evictDurableObject(stub(), { webSockets: "hibernate" });
    expect((await stub().status()).services).toEqual([]);
    await stub().publish("echo", {});
    expect((await leaf.fetch("https://echo.mesh/")).status).toBe(200);
    await runInDurableObject(stub(), async (node: Node) => {
      expect((await rejected(node.withdraw("other"))).message).toBe("services has no other");
      expect((await rejected(node.publish("echo", { weight: 2 }))).message).toMatch(/weight is a number/);
    });
    expect((await stub().status()).services).toMatchObject([{ name: "echo", weight: 1 }]);
  });
});

describe("an app that calls through the binding", () => {
  const app = new Hono<{ Bindings: typeof env }>();
  app.use((c, next) => mesh(() => c.env.NODE, { nodes: [name] })(c, next));
  app.get("/echo", (c) => c.var.mesh.fetch("https://echo.mesh/", { timeout_ms: 5000, key: "k" }));
  app.get("/nobody", (c) => c.var.mesh.fetch("https://nobody.mesh/", { unowned: true }));
  app.get("/health", async (c) => c.json(await c.var.mesh.health()));
  app.post("/stream", (c) => c.var.mesh.fetch(new Request("https://streaming.mesh/", c.req.raw)));
  app.get("/hang", async (c) => {
    const response = c.var.mesh.fetch("https://failing.mesh/hang-3", { signal: abort.signal });
    setTimeout(() => abort.abort(new Error("changed my mind")), 500);
    return c.text((await rejected(response)).message);
  });
  app.get("/drip", async (c) => {
    const { signal } = late;
    const response = await c.var.mesh.fetch("https://failing.mesh/drip", { signal });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const { value } = await reader.read();
    const next = reader.read();
    late.abort(new Error("changed my mind"));
    return c.text(`${new TextDecoder().decode(value)}, then ${(await rejected(next)).message}`);
  });
  const abort = new AbortController();
  const late = new AbortController();

  it("answers what the mesh answered, or why it did not", async () => {
    const echoed = await app.request("/echo", {}, env);
    expect(await echoed.json()).toMatchObject({ path: "/" });
    const response = await app.request("/nobody", {}, env);
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ status: 503, error: "NoProvider" });
    const health = (await (await app.request("/health", {}, env)).json()) as { name: string }[];
    expect(health.map(({ name }) => name).sort()).toEqual(["echo", "nobody"]);
  });

  it("goes on with a body after the answer to the first of it has begun", async () => {
    SERVICES[name] = { streaming: "Streaming" };
    const answered = Promise.withResolvers<void>();
    let chunks = 0;
    const body = new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        if (chunks === 1) await answered.promise;
        if (chunks === 5) return controller.close();
        controller.enqueue(new Uint8Array(100_000).fill(chunks++));
      },
    });
    const init = { method: "POST", body, duplex: "half" } as RequestInit;
    const response = await app.request("/stream", init, env);
    expect([response.status, chunks]).toEqual([200, 1]);
    answered.resolve();
    const echoed = new Uint8Array(await response.arrayBuffer());
    expect([echoed.length, echoed[0], echoed.at(-1)]).toEqual([500_000, 0, 4]);
  });

  it("may give up, and then so does the entrypoint", async () => {
    SERVICES[name] = { failing: "Failing" };
    expect(await (await app.request("/hang", {}, env)).text()).toBe("changed my mind");
    await vi.waitFor(() => expect(Failing.aborted).toContain("/hang-3"), 5000);
    expect(await (await app.request("/drip", {}, env)).text()).toBe("half, then changed my mind");
  });
});
