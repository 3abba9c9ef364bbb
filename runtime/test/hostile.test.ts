import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { after, before, describe, type TestContext, test } from "node:test";
import { WebSocket } from "ws";
import { MAX_WAITING } from "../src/driver/backlog.ts";
import { join, memory, type NodeMesh, serve } from "../src/entries/node.ts";
import { freePort, leaf, member, type TestNode, until, WatchedSockets } from "./support.ts";

const UNOWNED = { unowned: true } as const;

/** Pseudo-random bytes that are the same in every run. */
function noise(length: number, seed: number): Buffer {
  let state = seed >>> 0;
  const bytes = Buffer.alloc(length);
  for (let index = 0; index < length; index++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[index] = state >>> 24;
  }
  return bytes;
}

describe("a node under bad input", () => {
  let node: TestNode;
  let url: string;
  before(async () => {
    node = await member();
    await node.mesh.serve("alive", () => new Response("yes"), UNOWNED);
    [url = ""] = node.bootstrap.split("#");
  });
  after(() => node.mesh.close());

  async function stillServes(): Promise<void> {
    const other = await leaf(node.bootstrap);
    const response = await other.fetch("https://alive.mesh/", UNOWNED);
    assert.equal(await response.text(), "yes");
    await other.close();
  }

  function open(protocol = "selfsame.1"): Promise<WebSocket> {
    const socket = new WebSocket(url, protocol, { perMessageDeflate: false });
    return new Promise((resolve, reject) => {
      socket.once("open", () => resolve(socket));
      socket.once("error", reject);
    });
  }

  function closed(socket: WebSocket): Promise<number> {
    return new Promise((resolve) => socket.once("close", resolve));
  }

  test("drops random frames and goes on", async () => {
    const socket = await open();
    for (let index = 0; index < 200; index++) socket.send(noise(index * 13, index));
    await stillServes();
    const { counters } = await node.mesh.status();
    assert.ok(
      Object.values(counters).some((count) => count > 0),
      "what was dropped is counted",
    );
    socket.terminate();
  });

  test("answers ping with pong and closes on other text", async () => {
    const socket = await open();
    const answer = new Promise((resolve) => socket.once("message", (data) => resolve(String(data))));
    socket.send("ping");
    assert.equal(await answer, "pong");
    const code = closed(socket);
    socket.send("hello");
    assert.equal(await code, 1003);
  });

  test("closes a socket that carries a frame beyond the limit", async () => {
    const socket = await open();
    const code = closed(socket);
    socket.send(Buffer.alloc(65_537));
    assert.equal(await code, 1009);
    await stillServes();
  });

  test("refuses a socket without the subprotocol, and upgrades elsewhere", async () => {
    await assert.rejects(open("chat"), /400/);
    const { port, host } = new URL(url);
    const raw = connect(Number(port), "127.0.0.1");
    raw.write(`GET /other HTTP/1.1\r\nhost: ${host}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`);
    const [answer] = await new Promise<string[]>((resolve) =>
      raw.once("data", (data) => resolve([String(data)])),
    );
    assert.match(answer ?? "", /^HTTP\/1.1 404/);
    raw.destroy();
  });

  test("refuses POSTs that hold no frames, each with the status that says why", async () => {
    const http = url.replace("ws:", "http:");
    const type = { "content-type": "application/selfsame" };
    const token = { "selfsame-path": "ab".repeat(16) };
    const post = async (init: RequestInit): Promise<number> =>
      (await fetch(http, { method: "POST", ...init })).status;
    const plain = await fetch(http);
    assert.deepEqual([plain.status, plain.headers.get("allow")], [405, "GET, OPTIONS, POST"]);
    assert.equal(await post({ body: "x" }), 415);
    assert.equal(await post({ headers: type }), 400);
    assert.equal(await post({ headers: { ...type, "selfsame-path": "XY".repeat(16) } }), 400);
    assert.equal(await post({ headers: { ...type, ...token }, body: Buffer.from([5, 0, 0, 0, 1]) }), 400);
    assert.equal(
      await post({ headers: { ...type, ...token }, body: Buffer.from([255, 255, 255, 255]) }),
      400,
    );
    assert.equal(await post({ headers: { ...type, ...token }, body: Buffer.alloc(1_048_577) }), 413);
    assert.equal(await post({ headers: { ...type, ...token }, body: "" }), 200);
    const frames = Buffer.concat([Buffer.from([64, 0, 0, 0]), noise(64, 1)]);
    assert.equal(await post({ headers: { ...type, ...token }, body: frames }), 200);
    await stillServes();
  });
});

describe("strangers that ask for large answers and read nothing", () => {
  const MIB = 1024 * 1024;
  /** Answers that one asks for: 14 MiB, within what one path may have. */
  const ANSWERS = 56;
  const STRANGERS = 8;

  /** A way to a port whose clients do not read what comes any more once it is stalled. */
  async function stallingProxy(t: TestContext, port: number): Promise<{ port: number; stall: () => void }> {
    let isStalled = false;
    const upstreams = new Set<Socket>();
    const proxy = createServer((client) => {
      const upstream = connect(port, "127.0.0.1");
      upstreams.add(upstream);
      client.pipe(upstream);
      if (!isStalled) upstream.pipe(client);
      for (const socket of [client, upstream]) socket.on("error", () => undefined);
      upstream.on("close", () => client.destroy());
      client.on("close", () => upstream.destroy());
    });
    proxy.listen(0, "127.0.0.1");
    await once(proxy, "listening");
    t.after(() => {
      for (const upstream of upstreams) upstream.destroy();
      proxy.close();
    });
    const stall = (): void => {
      isStalled = true;
      for (const upstream of upstreams) upstream.unpipe().pause();
    };
    return { port: (proxy.address() as AddressInfo).port, stall };
  }

  test("leave memory to others, who are served", async (t) => {
    const port = await freePort();
    const address = `ws://127.0.0.1:${port}/.mesh`;
    const mesh = await join({ network: "test", storage: memory(), address, allowPrivate: true });
    const server = await serve({ fetch: mesh.handler(() => new Response()), port, hostname: "127.0.0.1" });
    const watched = new WatchedSockets(server);
    t.after(async () => {
      await mesh.close();
      server.close();
      server.closeAllConnections();
    });
    let asked = 0;
    const handler = (request: Request): Response => {
      asked++;
      return new Response(new Uint8Array(Number(new URL(request.url).searchParams.get("length"))));
    };
    await mesh.serve("large", handler, UNOWNED);
    const fetchLength = async (node: NodeMesh, length: number): Promise<number> =>
      (await (await node.fetch(`https://large.mesh/?length=${length}`, UNOWNED)).arrayBuffer()).byteLength;
    const honest = await leaf(`${address}#${mesh.id}`);
    const proxy = await stallingProxy(t, port);
    const strangers = await Promise.all(
      Array.from({ length: STRANGERS }, () => leaf(`ws://127.0.0.1:${proxy.port}/.mesh#${mesh.id}`)),
    );
    t.after(() => Promise.all([honest, ...strangers].map((node) => node.close())));
    for (const node of strangers) assert.equal(await fetchLength(node, 1), 1);
    proxy.stall();
    let most = 0;
    for (const node of strangers) {
      const before = asked;
      for (let count = 0; count < ANSWERS; count++) fetchLength(node, MIB / 4).catch(() => undefined);
      await until("all are asked for", () => asked >= before + ANSWERS);
      assert.equal(await fetchLength(honest, MIB), MIB);
      most = Math.max(most, watched.waitingBytes);
    }
    assert.ok(most <= MAX_WAITING, `${most} bytes`);
    assert.ok(most > MAX_WAITING / 2, `the bound was not reached: ${most} bytes`);
  });
});
