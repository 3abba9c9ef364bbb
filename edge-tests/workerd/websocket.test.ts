/** WebSocket through the mesh in workerd: to an entrypoint, by a node in an isolate and through the binding. */
import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Hono } from "hono";
import { mesh } from "selfsame/hono";
import { type Mesh, type MeshSocket, upgradeWebSocket } from "selfsame/slim";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { joinAsLeaf } from "./leaf.ts";
import { opened as paths, StubSocket } from "./socket.ts";
import { Chat, type Node, SERVICES } from "./worker.ts";

const { NODE, ROOM } = env;
const ASKING = { upgrade: "websocket", "sec-websocket-protocol": "chat.1, chat.2", "x-own": "kept" };

/** The node's name is new for each test. */
let round = 0;
let name: string;
let leaf: Mesh | undefined;

beforeEach(() => {
  round += 1;
  name = `talking-${round}`;
  SERVICES[name] = { chat: "Chat" };
  paths.length = 0;
  vi.stubGlobal("WebSocket", StubSocket);
});

afterEach(async () => {
  vi.useRealTimers();
  await leaf?.close();
  leaf = undefined;
  vi.unstubAllGlobals();
});

const stub = (): DurableObjectStub<Node> => NODE.get(NODE.idFromName(name));

async function joined(): Promise<Mesh> {
  leaf = await joinAsLeaf(name);
  return leaf;
}

const asking = (url = "https://chat.mesh/kept"): Request => new Request(url, { headers: ASKING });

const collect = (ticket: string): Promise<Response> =>
  stub().fetch("https://node.test/", { headers: { upgrade: "websocket", "selfsame-ticket": ticket } });

/** The socket of an answer, what it received, and how it ended. */
function listen({ status, webSocket }: Response): {
  socket: WebSocket;
  next: () => Promise<unknown>;
  ended: Promise<string>;
} {
  expect(status).toBe(101);
  if (webSocket === null) return expect.unreachable("the answer holds no socket");
  const received: unknown[] = [];
  webSocket.binaryType = "arraybuffer";
  webSocket.addEventListener("message", ({ data }) => {
    received.push(data);
  });
  const ended = new Promise<string>((resolve) => {
    webSocket.addEventListener("close", ({ code, reason }) => resolve(`${code} ${reason}`));
  });
  webSocket.accept();
  const next = async (): Promise<unknown> => {
    await vi.waitFor(() => expect(received.length).toBeGreaterThan(0), 5000);
    return received.shift();
  };
  return { socket: webSocket, next, ended };
}

/** Talks over an answer's socket, which the service closes. */
async function talk(response: Response, caller: string): Promise<void> {
  const { socket, next, ended } = listen(response);
  expect(response.headers.get("sec-websocket-protocol")).toBe("chat.2");
  expect(await next()).toBe(`${caller} kept`);
  socket.send("text \u20ac");
  expect(await next()).toBe("text \u20ac");
  const large = new Uint8Array(600_000).map((_, index) => index % 251);
  socket.send(large);
  expect(new Uint8Array((await next()) as ArrayBuffer)).toEqual(large);
  socket.send("close");
  expect(await ended).toBe("1008 told to");
}

const opened = (socket: MeshSocket): Promise<void> =>
  new Promise((resolve, reject) => {
    socket.addEventListener("open", () => resolve());
    socket.addEventListener("error", ({ error }) => reject(error));
  });

describe("a node in an isolate", () => {
  it("gets the platform's own socket from fetch", async () => {
    const leaf = await joined();
    await talk(await leaf.fetch("https://chat.mesh/", { headers: ASKING }), leaf.id);
    const { socket, ended } = listen(await leaf.fetch("https://chat.mesh/by-caller", { headers: ASKING }));
    socket.close(3001, "enough");
    expect(await ended).toMatch(/^3001/);
    await vi.waitFor(() => expect(Chat.ended["/by-caller"]).toBe("3001 enough"), 5000);
    const refused = await leaf.fetch("https://chat.mesh/refused", { headers: ASKING });
    expect(refused.status).toBe(403);
    expect(refused.webSocket).toBeNull();
    expect(await refused.text()).toBe("not you");
    expect(await (await leaf.fetch("https://chat.mesh/")).text()).toBe("no upgrade");
    // However much the node had to say at once, what it keeps with the leaf's own socket is small.
    expect(paths.length).toBe(1);
  });

  it("accepts one with a WebSocketPair, or neutrally", async () => {
    const leaf = await joined();
    await leaf.serve("pair", () => {
      const { 0: client, 1: server } = new WebSocketPair();
      server.accept();
      server.send("from the pair");
      return new Response(null, { status: 101, webSocket: client });
    });
    await leaf.serve("neutral", (request) => {
      const { socket, response } = upgradeWebSocket(request, { protocol: "chat.1" });
      socket.onopen = () => socket.send("neutrally");
      return response;
    });
    for (const [service, message] of [
      ["pair", "from the pair"],
      ["neutral", "neutrally"],
    ]) {
      const result = await stub().upgrade(asking(`https://${service}.mesh/`), {}, service ?? "");
      expect(result).toEqual({ accepted: true });
      const { next, socket } = listen(await collect(service ?? ""));
      expect(await next()).toBe(message);
      socket.close();
    }
  });

  it("speaks to a room whose sockets hibernate", async () => {
    SERVICES[name] = { lobby: "Lobby" };
    const leaf = await joined();
    const url = `https://lobby.mesh/${name}`;
    const [one, other] = [
      listen(await leaf.fetch(url, { headers: ASKING })),
      listen(await leaf.fetch(url, { headers: ASKING })),
    ];
    one.socket.send("hello");
    expect(await Promise.all([one.next(), other.next()])).toEqual(["hello to 2", "hello to 2"]);
    const room = ROOM.get(ROOM.idFromName(`/${name}`));
    await evictDurableObject(room, { webSockets: "hibernate" });
    other.socket.send("again");
    expect(await Promise.all([one.next(), other.next()])).toEqual(["again to 2", "again to 2"]);
    for (const { socket } of [one, other]) socket.close();
  });

  it("takes no subprotocol that it did not offer", async () => {
    const leaf = await joined();
    const headers = { upgrade: "websocket" };
    await expect(leaf.fetch("https://chat.mesh/unoffered", { headers })).rejects.toMatchObject({
      name: "BadMessage",
      message: expect.stringContaining("chose a subprotocol that nobody offered"),
    });
    // The end of the request may reach the entrypoint before that of the connection.
    await vi.waitFor(() => expect(Chat.ended["/unoffered"]).toMatch(/^10(06|11) /), 5000);
  });

  it("hears that the service's node is gone", async () => {
    const leaf = await joined();
    const { next, ended } = listen(await leaf.fetch("https://chat.mesh/", { headers: ASKING }));
    await next();
    await stub().leave();
    expect(await ended).toMatch(/^1011 /);
  });
});

describe("an app that opens sockets through the binding", () => {
  const app = new Hono<{ Bindings: typeof env }>();
  const abort = new AbortController();
  app.use((c, next) => mesh(() => c.env.NODE, { nodes: [name] })(c, next));
  app.get("/chat/*", (c) => {
    const url = new URL(c.req.path.replace("/chat", ""), "https://chat.mesh");
    return c.var.mesh.fetch(new Request(url, c.req.raw));
  });
  app.get("/nobody", (c) => c.var.mesh.fetch("https://nobody.mesh/", { unowned: true, headers: ASKING }));
  app.get("/hang", async (c) => {
    const response = c.var.mesh.fetch("https://chat.mesh/hang", { headers: ASKING, signal: abort.signal });
    setTimeout(() => abort.abort(new Error("changed my mind")), 300);
    return c.text(
      await response.then(
        () => "opened",
        ({ message }: Error) => message,
      ),
    );
  });
  app.get("/hasty", async (c) => {
    const socket = c.var.mesh.webSocket("wss://chat.mesh/hasty", ["chat.2"]);
    socket.addEventListener("open", () => socket.send("at once"));
    const { promise, resolve } = Promise.withResolvers<Response>();
    socket.addEventListener("message", ({ data }) => {
      if (data === "at once") resolve(c.text("sent back"));
    });
    const response = await promise;
    socket.close();
    return response;
  });
  app.get("/early", async (c) => {
    const socket = c.var.mesh.webSocket("wss://chat.mesh/early", ["chat.2"]);
    socket.addEventListener("open", () => socket.close(3001, "enough"));
    await new Promise((resolve) => socket.addEventListener("close", resolve));
    return c.text("closed");
  });
  app.get("/socket/:path", async (c) => {
    const socket = c.var.mesh.webSocket(`wss://chat.mesh/${c.req.param("path")}`, ["chat.2"]);
    const message = new Promise((resolve) => socket.addEventListener("message", ({ data }) => resolve(data)));
    try {
      await opened(socket);
    } catch (error) {
      return c.text((error as Error).message);
    }
    const text = `${socket.protocol} ${await message}`;
    const end = new Promise<string>((resolve) => {
      socket.addEventListener("close", ({ code, reason }) => resolve(`${code} ${reason}`));
    });
    socket.send("close");
    return c.text(`${text}, ${await end}`);
  });

  it("hands them on, or the answer that refuses them", async () => {
    const { id } = await stub().status();
    await talk(await app.request("/chat/", { headers: ASKING }, env), id);
    const refused = await app.request("/chat/refused", { headers: ASKING }, env);
    expect([refused.status, await refused.text()]).toEqual([403, "not you"]);
    const nobody = await app.request("/nobody", {}, env);
    expect(nobody.status).toBe(503);
    expect(await nobody.json()).toMatchObject({ error: "NoProvider" });
    expect(await (await app.request("/hang", {}, env)).text()).toBe("changed my mind");
  });

  it("sends and closes as soon as it is open", async () => {
    await stub().status();
    expect(await (await app.request("/hasty", {}, env)).text()).toBe("sent back");
    expect(await (await app.request("/early", {}, env)).text()).toBe("closed");
    await vi.waitFor(() => expect(Chat.ended["/early"]).toBe("3001 enough"), 5000);
  });

  it("has the neutral interface, too", async () => {
    const { id } = await stub().status();
    expect(await (await app.request("/socket/room", {}, env)).text()).toBe(`chat.2 ${id} null, 1008 told to`);
    const refused = await (await app.request("/socket/refused", {}, env)).text();
    expect(refused).toBe("the service opened no WebSocket: it answered 403");
  });
});

describe("a socket that is to be collected", () => {
  it("is given once, and to the ticket alone", async () => {
    expect(await stub().upgrade(asking(), {}, "ticket")).toEqual({ accepted: true });
    expect((await collect("other")).status).toBe(400);
    const { socket, next } = listen(await collect("ticket"));
    expect(await next()).toMatch(/kept$/);
    expect((await collect("ticket")).status).toBe(400);
    socket.close();
  });

  it("is no answer of call, and needs a ticket", async () => {
    expect(await stub().call(asking())).toMatchObject({ error: { code: 0x0105 } });
    expect(await stub().upgrade(asking(), {}, "")).toMatchObject({ error: { code: 0x0105 } });
  });

  it("is closed when nobody comes", async () => {
    expect(await stub().upgrade(asking(), {}, "late")).toEqual({ accepted: true });
    await vi.waitFor(() => expect(Chat.ended["/kept"]).toBe("1001 nobody collected the socket"), 20_000);
    expect((await collect("late")).status).toBe(400);
  }, 30_000);
});
