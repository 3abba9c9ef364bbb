/** A node in a Durable Object: its identity, its sleep, its sockets, and who is told to have called. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { joinAsLeaf } from "./leaf.ts";
import { opened, StubSocket, upgrade } from "./socket.ts";
import { BOOTSTRAPS, type Node, SERVICES, UNGRANTED } from "./worker.ts";

const { NODE } = env;

/** Names are new for each test, so that no test sees another's ring. */
let round = 0;
let first: string;
let second: string;

beforeEach(() => {
  round += 1;
  [first, second] = [`first-${round}`, `second-${round}`];
  opened.length = 0;
  vi.stubGlobal("WebSocket", StubSocket);
});

afterEach(() => {
  vi.unstubAllGlobals();
});

const stubOf = (name: string): DurableObjectStub<Node> => NODE.get(NODE.idFromName(name));

const lifeOf = (name: string): Promise<string> => runInDurableObject(stubOf(name), (node: Node) => node.life);

async function startSecond(): Promise<{ firstId: string; secondId: string }> {
  const { id: firstId } = await stubOf(first).status();
  BOOTSTRAPS[second] = `http://${first}.test/.mesh#${firstId}`;
  const { id: secondId } = await stubOf(second).status();
  await vi.waitFor(async () => {
    const [one, other] = await Promise.all([stubOf(first).status(), stubOf(second).status()]);
    expect(one.successors[0]?.id).toBe(secondId);
    expect(other.successors[0]?.id).toBe(firstId);
    expect(one.predecessor?.id).toBe(secondId);
    expect(other.predecessor?.id).toBe(firstId);
  }, 10_000);
  return { firstId, secondId };
}

type Echoed = {
  caller: string;
  assurance: string;
  path: string;
  headers: Record<string, string>;
  body: string;
};

describe("a node in a Durable Object", () => {
  it("begins a ring of one and is the same peer after its memory is lost", async () => {
    const before = await stubOf(first).status();
    const life = await lifeOf(first);
    expect(before).toMatchObject({ role: "member", joined: true, successors: [] });
    await evictDurableObject(stubOf(first));
    const after = await stubOf(first).status();
    expect(after.id).toBe(before.id);
    expect(after.bootId).not.toBe(before.bootId);
    expect(await lifeOf(first)).not.toBe(life);
    expect(after.services.map(({ name }) => name)).toEqual(["echo"]);
  });

  it("tells its id without a grant, warns, and serves what needs none", async () => {
    UNGRANTED.add(first);
    SERVICES[first] = { open: { entrypoint: "Echo", unowned: true } };
    const errors = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const status = await stubOf(first).status();
    expect(errors).toHaveBeenCalledExactlyOnceWith(
      "selfsame: echo is not served: echo needs its owner's grant: give grant, or publish it with unowned: true",
    );
    errors.mockRestore();
    expect(status).toMatchObject({ joined: true, id: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(status.services.map(({ name }) => name)).toEqual(["open"]);
    const answer = await stubOf(first).call(new Request("https://open.mesh/"), { unowned: true });
    expect(answer).toMatchObject({ response: { status: 200 } });
  });

  it("joins another by POST, and tells a service who called where no header can lie", async () => {
    const { firstId, secondId } = await startSecond();
    const request = new Request("https://echo.mesh/deep/path?q=1", {
      method: "POST",
      body: "body",
      headers: { "selfsame-caller": firstId, "x-own": "kept" },
    });
    const result = await stubOf(second).call(request, { peer: firstId });
    if ("error" in result) throw new Error(result.error.message);
    const echoed = (await result.response.json()) as Echoed;
    expect(echoed).toMatchObject({
      caller: secondId,
      assurance: "session",
      path: "/deep/path?q=1",
      body: "body",
    });
    expect(echoed.headers["x-own"]).toBe("kept");
  });

  it("keeps its errors' codes over the binding", async () => {
    const answer = await stubOf(first).call(new Request("https://nobody.mesh/"), { unowned: true });
    expect(answer).toMatchObject({ error: { code: 0x0801 } });
    const wrong = await stubOf(first).call(new Request("https://example.com/"), {});
    expect(wrong).toMatchObject({ error: { code: 0x0105 } });
  });

  it("answers again after both of a ring were evicted", async () => {
    const { firstId } = await startSecond();
    await evictDurableObject(stubOf(first));
    await evictDurableObject(stubOf(second));
    const result = await stubOf(second).call(new Request("https://echo.mesh/again"), { peer: firstId });
    if ("error" in result) throw new Error(result.error.message);
    expect(((await result.response.json()) as Echoed).path).toBe("/again");
  });

  it("sets an alarm for its maintenance, and the next one when it rings", async () => {
    await startSecond();
    const alarm = (): Promise<number | null> =>
      runInDurableObject(stubOf(first), (_, { storage }) => storage.getAlarm());
    await vi.waitFor(async () => expect(await alarm()).not.toBeNull(), 12_000);
    expect(Number(await alarm()) - Date.now()).toBeLessThanOrEqual(120_000);
    expect(await runDurableObjectAlarm(stubOf(first))).toBe(true);
    await vi.waitFor(async () => expect(await alarm()).not.toBeNull(), 12_000);
  });
});

describe("a hibernating socket", () => {
  it("carries a leaf that calls and is called", async () => {
    const leaf = await joinAsLeaf(first);
    const { id } = await stubOf(first).status();
    const echoed = (await (await leaf.fetch("https://echo.mesh/", { peer: id })).json()) as Echoed;
    expect(echoed.caller).toBe(leaf.id);
    await leaf.serve(
      "leaf",
      async (request, { caller }) => new Response(`${caller} ${await request.text()}`),
      {
        unowned: true,
      },
    );
    const request = new Request("https://leaf.mesh/", { method: "POST", body: "hello" });
    const result = await stubOf(first).call(request, { unowned: true });
    if ("error" in result) throw new Error(result.error.message);
    expect(await result.response.text()).toBe(`${id} hello`);
    await leaf.close();
  });

  it("survives the loss of memory: the next sealed frame on it is answered", async () => {
    const leaf = await joinAsLeaf(first);
    const { id } = await stubOf(first).status();
    await leaf.fetch("https://echo.mesh/", { peer: id });
    const lives = new Set([await lifeOf(first)]);
    for (let eviction = 1; eviction <= 3; eviction++) {
      await evictDurableObject(stubOf(first), { webSockets: "hibernate" });
      const response = await leaf.fetch(`https://echo.mesh/${eviction}`, { peer: id });
      expect(((await response.json()) as Echoed).path).toBe(`/${eviction}`);
      lives.add(await lifeOf(first));
    }
    expect(lives.size).toBe(4);
    expect(opened.length).toBe(1);
    await leaf.close();
  });

  it("lets a leaf be called after the loss of memory", async () => {
    const leaf = await joinAsLeaf(first);
    await leaf.serve("leaf", () => new Response("here"), { unowned: true });
    await evictDurableObject(stubOf(first), { webSockets: "hibernate" });
    const result = await stubOf(first).call(new Request("https://leaf.mesh/"), { unowned: true });
    if ("error" in result) throw new Error(result.error.message);
    expect(await result.response.text()).toBe("here");
    expect(opened.length).toBe(1);
    await leaf.close();
  });

  it("that is closed ends the session, and the leaf comes back on a new one", async () => {
    const leaf = await joinAsLeaf(first);
    const { id } = await stubOf(first).status();
    await leaf.fetch("https://echo.mesh/", { peer: id });
    await evictDurableObject(stubOf(first), { webSockets: "close" });
    await vi.waitFor(async () => {
      expect((await leaf.fetch("https://echo.mesh/", { peer: id })).status).toBe(200);
    }, 10_000);
    expect(opened.length).toBeGreaterThan(1);
    await leaf.close();
  });
});

describe("what does not follow the specification", () => {
  async function openSocket(): Promise<{ socket: WebSocket; closed: Promise<number>; messages: unknown[] }> {
    const { webSocket: socket } = await upgrade(first, "selfsame.1");
    if (socket === null) throw new Error("there is no socket");
    const messages: unknown[] = [];
    socket.accept();
    socket.addEventListener("message", ({ data }) => messages.push(data));
    const closed = new Promise<number>((resolve) => {
      socket.addEventListener("close", ({ code }) => resolve(code));
    });
    return { socket, closed, messages };
  }

  it("is refused before a socket is opened: no subprotocol, another method or type", async () => {
    expect((await upgrade(first, undefined)).status).toBe(400);
    expect((await upgrade(first, "other")).status).toBe(400);
    const post = (init: RequestInit): Promise<Response> =>
      stubOf(first).fetch(`http://${first}.test/.mesh`, init);
    expect((await post({ method: "GET" })).status).toBe(405);
    expect((await post({ method: "POST", body: "x" })).status).toBe(415);
    const headers = { "content-type": "application/selfsame", "selfsame-path": "00".repeat(16) };
    expect((await post({ method: "POST", body: "xyz", headers })).status).toBe(400);
    expect((await post({ method: "POST", body: new Uint8Array(1024 * 1024 + 1), headers })).status).toBe(413);
  });

  it("closes its socket: other text with 1003, a frame that is too large with 1009", async () => {
    const text = await openSocket();
    text.socket.send("hello");
    expect(await text.closed).toBe(1003);
    const large = await openSocket();
    large.socket.send(new Uint8Array(64 * 1024 + 1));
    expect(await large.closed).toBe(1009);
  });

  it("disturbs nobody: random frames are dropped and a leaf is answered beside them", async () => {
    const leaf = await joinAsLeaf(first);
    const { id } = await stubOf(first).status();
    const { socket } = await openSocket();
    for (let length = 0; length < 300; length++) {
      socket.send(crypto.getRandomValues(new Uint8Array(length * 7)));
    }
    expect((await leaf.fetch("https://echo.mesh/", { peer: id })).status).toBe(200);
    await leaf.close();
  });

  it("is answered where it is a ping, without waking the node", async () => {
    const { socket, messages } = await openSocket();
    const life = await lifeOf(first);
    socket.send("ping");
    await vi.waitFor(() => expect(messages).toEqual(["pong"]), 5000);
    expect(await lifeOf(first)).toBe(life);
  });
});
