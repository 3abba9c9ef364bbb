import assert from "node:assert/strict";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { after, before, describe, type TestContext, test } from "node:test";
import type { Link } from "../src/driver/paths.ts";
import { joinFrames } from "../src/transports/frames.ts";
import { listenersOf } from "../src/transports/listen.ts";
import { placeOf } from "../src/transports/place.ts";
import { isPublic } from "../src/transports/public-address.ts";
import { carryStream } from "../src/transports/stream.ts";
import { listenTcp, TcpDialler } from "../src/transports/tcp.ts";
import { freePort, Host, leaf, member, mockClocks, type TestNode, until } from "./support.ts";

const UNOWNED = { unowned: true } as const;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const framed = (...texts: string[]): Uint8Array => joinFrames(texts.map(bytes));

/** A listening acceptor, and a bare connection to it. */
async function accepted(t: TestContext): Promise<{ host: Host; socket: Socket; read: () => Buffer }> {
  const host = new Host();
  const server = await listenTcp({ port: 0, hostname: "127.0.0.1" }, host);
  const socket = connect({ port: portOf(server), host: "127.0.0.1", allowHalfOpen: true });
  const chunks: Buffer[] = [];
  socket.on("data", (chunk) => chunks.push(chunk));
  socket.on("error", () => undefined);
  t.after(() => {
    socket.destroy();
    server.close();
  });
  await until("the path is open", () => host.links.length === 1);
  return { host, socket, read: () => Buffer.concat(chunks) };
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

const ended = (socket: Socket): Promise<unknown> =>
  new Promise((resolve) => {
    socket.once("end", resolve);
    socket.once("close", resolve);
  });

describe("frames over TCP", () => {
  test("go both ways between a dialler and a listener", async (t) => {
    const [dialling, accepting] = [new Host(), new Host()];
    const server = await listenTcp({ port: 0, hostname: "127.0.0.1" }, accepting);
    t.after(() => server.close());
    new TcpDialler({ allowPrivate: true }).dial(7, `tcp://127.0.0.1:${portOf(server)}#id`, dialling);
    await until("both paths are open", () => dialling.links.length === 1 && accepting.links.length === 1);
    assert.deepEqual(dialling.inputs, [
      { type: "PathOpened", path: 1, dial: 7, kind: "Ordered", remote: `127.0.0.1:${portOf(server)}` },
    ]);
    assert.deepEqual(accepting.inputs, [
      { type: "PathOpened", path: 1, dial: 0, kind: "Direct", remote: "127.0.0.1" },
    ]);
    const large = "x".repeat(65_536);
    for (const text of ["a", large, "b"]) dialling.links[0]?.send(bytes(text));
    for (const text of ["c", "d"]) accepting.links[0]?.send(bytes(text));
    await until(
      "all frames are there",
      () => accepting.frames().length === 3 && dialling.frames().length === 2,
    );
    assert.deepEqual(accepting.frames(), ["a", large, "b"]);
    assert.deepEqual(dialling.frames(), ["c", "d"]);
    dialling.table.get(1)?.close(1000, "");
    await until("the other side hears of the end", () => accepting.table.size === 0);
  });

  test("that were queued go out before the end, and what is under way does not reset them", async (t) => {
    const { host, socket, read } = await accepted(t);
    socket.pause();
    const link = host.links[0] as Link;
    for (let index = 0; index < 40; index++) link.send(new Uint8Array(65_536).fill(index));
    const end = ended(socket);
    host.table.get(1)?.close(1000, "");
    socket.write(framed("still under way"));
    socket.resume();
    await end;
    assert.equal(read().length, 40 * 65_540);
    assert.deepEqual(host.frames(), [], "a path that is closed hears nothing");
  });

  test("end with the peer's end", async (t) => {
    const { host, socket } = await accepted(t);
    const end = ended(socket);
    socket.write(framed("last"));
    socket.end();
    await end;
    assert.equal(host.table.size, 0);
    assert.deepEqual(host.frames(), ["last"]);
  });

  test("are refused when the peer takes them too slowly", async (t) => {
    const { host, socket } = await accepted(t);
    socket.pause();
    const frame = new Uint8Array(65_536);
    assert.throws(() => {
      for (let index = 0; index < 1000; index++) host.links[0]?.send(frame);
    }, /too slowly/);
  });

  for (const [what, sent] of [
    ["a request of HTTP", bytes("GET / HTTP/1.1\r\nhost: x\r\n\r\n")],
    ["a greeting of TLS", Uint8Array.of(0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc)],
    ["a greeting of SSH", bytes("SSH-2.0-OpenSSH_9.9\r\n")],
    ["a length beyond the limit", Uint8Array.of(1, 0, 1, 0)],
  ] as const) {
    test(`close the connection when they are ${what}`, async (t) => {
      const { host, socket } = await accepted(t);
      const end = ended(socket);
      socket.write(sent);
      await end;
      assert.equal(host.table.size, 0);
      assert.deepEqual(host.frames(), []);
    });
  }
});

describe("keep-alive over TCP", () => {
  const ALIVE = Buffer.alloc(4);

  /** A dialled or accepted path under a clock of its own. */
  async function silent(
    t: TestContext,
    dial: number,
  ): Promise<{ host: Host; far: Socket; read: () => Buffer }> {
    const host = new Host();
    const near = Promise.withResolvers<Socket>();
    const server = createServer({ allowHalfOpen: true }, (socket) => near.resolve(socket));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const far = connect({ port: portOf(server), host: "127.0.0.1", allowHalfOpen: true });
    const socket = await near.promise;
    mockClocks(t, ["setTimeout", "Date"], 1_000_000);
    t.after(() => {
      t.mock.timers.reset();
      far.destroy();
      socket.destroy();
      server.close();
    });
    const chunks: Buffer[] = [];
    far.on("data", (chunk) => chunks.push(chunk));
    carryStream(socket, host, { dial, kind: "Ordered", remote: "" });
    return { host, far, read: () => Buffer.concat(chunks) };
  }

  /** Waits for a condition with turns of the event loop: the clock stands still. */
  async function turns(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise(setImmediate);
  }

  test("who dialled asks twice and closes without an answer", async (t) => {
    const { host, read } = await silent(t, 1);
    t.mock.timers.tick(19_999);
    assert.equal(read().length, 0);
    t.mock.timers.tick(1);
    await turns(() => read().equals(ALIVE));
    t.mock.timers.tick(20_000);
    await turns(() => read().length === 8);
    assert.equal(host.table.size, 1);
    t.mock.timers.tick(20_000);
    assert.equal(host.table.size, 0);
  });

  test("an answer keeps the path and is not answered by who dialled", async (t) => {
    const { host, far, read } = await silent(t, 1);
    for (let index = 1; index <= 6; index++) {
      t.mock.timers.tick(20_000);
      await turns(() => read().length === 4 * index);
      far.write(ALIVE);
      far.write(framed(`${index}`));
      await turns(() => host.frames().length === index);
    }
    assert.equal(host.table.size, 1);
  });

  test("who accepted answers, and closes after 80 s without a whole frame", async (t) => {
    const { host, far, read } = await silent(t, 0);
    far.write(ALIVE);
    await turns(() => read().equals(ALIVE));
    t.mock.timers.tick(70_000);
    // Bytes that are no whole frame are no sign of life.
    far.write(Uint8Array.of(9, 0, 0, 0, 1));
    await new Promise(setImmediate);
    t.mock.timers.tick(9_999);
    assert.equal(host.table.size, 1);
    t.mock.timers.tick(1);
    assert.equal(host.table.size, 0);
  });
});

describe("addresses of TCP", () => {
  test("have a host and a port and nothing else", () => {
    assert.deepEqual(placeOf("tcp://[::1]:7001#id", "tcp"), { host: "::1", port: 7001 });
    assert.deepEqual(placeOf("tcp://host:1/", "tcp"), { host: "host", port: 1 });
    for (const wrong of [
      "tcp://host",
      "tcp://host:0",
      "tcp://host:1/path",
      "tcp://me@host:1",
      "ws://host:1",
    ]) {
      assert.throws(() => placeOf(wrong, "tcp"), { message: "an address of TCP is tcp://host:port" }, wrong);
    }
  });

  test("that lead inside are not dialled unless that is meant", async () => {
    const port = await freePort();
    const reasons = async (
      options: ConstructorParameters<typeof TcpDialler>[0],
      url: string,
    ): Promise<string> => {
      const host = new Host();
      new TcpDialler(options).dial(1, url, host);
      await until("the dial failed", () => host.failures.length === 1);
      return host.failures[0] ?? "";
    };
    for (const host of ["127.0.0.1", "[::1]", "localhost"]) {
      assert.match(await reasons({}, `tcp://${host}:${port}`), /a private address/);
    }
    const url = `tcp://127.0.0.1:${port}`;
    assert.match(await reasons({ allowPrivate: true }, url), /ECONNREFUSED/);
    assert.match(await reasons({ bootstrap: [`${url}#id`, "tcp://none"] }, url), /ECONNREFUSED/);
    for (const ip of [
      "10.0.0.1",
      "169.254.169.254",
      "fd00::1",
      "::ffff:127.0.0.1",
      "64:ff9b::a00:1",
      "2002::1",
    ]) {
      assert.equal(isPublic(ip), false, ip);
    }
    for (const ip of ["1.1.1.1", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"]) {
      assert.equal(isPublic(ip), true, ip);
    }
  });

  test("to listen at are ports, places or URLs", () => {
    assert.deepEqual(listenersOf([7000, { port: 1 }, "tcp://[::1]:7001", "ws://0.0.0.0:80"]), [
      { speaks: "http", port: 7000 },
      { speaks: "http", port: 1 },
      { speaks: "tcp", port: 7001, hostname: "::1" },
      { speaks: "http", port: 80, hostname: "0.0.0.0" },
    ]);
    for (const wrong of ["tcp://host", "udp://host", "quic://host:1", "7000"]) {
      assert.throws(
        () => listenersOf(wrong),
        { name: "BadConfig", message: /tcp:\/\/0\.0\.0\.0:7001/ },
        wrong,
      );
    }
  });
});

describe("nodes over TCP", () => {
  let first: TestNode;
  let second: TestNode;
  before(async () => {
    first = await member({ scheme: "tcp" });
    second = await member({ scheme: "tcp", bootstrap: first.bootstrap });
  });
  after(async () => {
    await second.mesh.close();
    await first.mesh.close();
  });

  test("call each other with large bodies", async () => {
    await first.mesh.serve("echo", (request) => new Response(request.body), UNOWNED);
    const body = "x".repeat(1_000_000);
    const answer = await second.mesh.fetch("https://echo.mesh/", { method: "POST", body, ...UNOWNED });
    assert.equal(await answer.text(), body);
  });

  test("drop frames that mean nothing and serve on", async () => {
    await first.mesh.serve("alive", () => new Response("yes"), UNOWNED);
    const { port } = placeOf(first.bootstrap, "tcp");
    let state = 7;
    const noise = (length: number): Uint8Array =>
      Uint8Array.from({ length }, () => {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
        return state >>> 24;
      });
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => undefined);
    for (let index = 0; index < 200; index++) socket.write(joinFrames([noise(index * 13)]));
    const other = await leaf(first.bootstrap);
    const response = await other.fetch("https://alive.mesh/", UNOWNED);
    assert.equal(await response.text(), "yes");
    await other.close();
    socket.destroy();
  });

  test("go on over WebSocket when TCP is cut off, and the application notices nothing", async () => {
    // A way in over TCP that can be cut off, in front of a node that also speaks WebSocket.
    const [inside, outside, web] = [await freePort(), await freePort(), await freePort()];
    const carried = new Set<Socket>();
    const way = createServer((near) => {
      const far = connect(inside, "127.0.0.1");
      for (const socket of [near, far]) carried.add(socket.on("error", () => undefined));
      near.pipe(far).pipe(near);
    });
    await new Promise<void>((resolve) => way.listen(outside, "127.0.0.1", resolve));
    const provider = await member({
      bootstrap: first.bootstrap,
      listen: [`tcp://127.0.0.1:${inside}`, `ws://127.0.0.1:${web}`],
      address: [`tcp://127.0.0.1:${outside}`, `ws://127.0.0.1:${web}/.mesh`],
    });
    const caller = await leaf(first.bootstrap);
    await provider.mesh.serve("steady", async (request) => new Response(await request.text()), UNOWNED);
    const ask = async (body: string): Promise<string> =>
      (await caller.fetch("https://steady.mesh/", { method: "PUT", body, ...UNOWNED })).text();
    assert.equal(await ask("before"), "before");
    assert.ok(carried.size > 0, "the first address is TCP's, and it is taken");
    way.close();
    for (const socket of carried) socket.destroy();
    const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => ask(`after ${index}`)));
    assert.deepEqual(
      answers,
      Array.from({ length: 20 }, (_, index) => `after ${index}`),
    );
    await caller.close();
    await provider.mesh.close();
  });
});
