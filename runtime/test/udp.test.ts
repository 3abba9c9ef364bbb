import assert from "node:assert/strict";
import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import { after, before, describe, type TestContext, test } from "node:test";
import type { Link } from "../src/driver/paths.ts";
import { joinFrames } from "../src/transports/frames.ts";
import { listenersOf } from "../src/transports/listen.ts";
import { placeOf } from "../src/transports/place.ts";
import { connectUdp, UdpDialler } from "../src/transports/udp/dial.ts";
import { listenUdp, type UdpListener } from "../src/transports/udp/listen.ts";
import {
  type Datagram,
  MAX_SEGMENT,
  MAX_WINDOW,
  type Packet,
  parseDatagram,
  writeDatagram,
} from "../src/transports/udp/packet.ts";
import { freeUdpPort, Host, leaf, member, type TestNode, until } from "./support.ts";
import { pattern } from "./udp-network.ts";

const UNOWNED = { unowned: true } as const;
const MIB = 1024 * 1024;
const LOOPBACK = "127.0.0.1";
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

async function listening(t: TestContext, port = 0): Promise<{ host: Host; listener: UdpListener }> {
  const host = new Host();
  const listener = await listenUdp({ port, hostname: LOOPBACK }, host);
  t.after(() => listener.close());
  return { host, listener };
}

function dial(port: number, dialling: Host = new Host()): Host {
  new UdpDialler({ allowPrivate: true }).dial(7, `udp://${LOOPBACK}:${port}#id`, dialling);
  return dialling;
}

/** Both ends of a path over loopback. */
async function pair(
  t: TestContext,
): Promise<{ listener: UdpListener; accepting: Host; dialling: Host; ends: [Link, Link] }> {
  const { host: accepting, listener } = await listening(t);
  const dialling = dial(listener.port);
  await until("both paths are open", () => dialling.links.length === 1 && accepting.links.length === 1);
  t.after(() => dialling.table.closeAll(1000, ""));
  return { listener, accepting, dialling, ends: [dialling.links[0] as Link, accepting.links[0] as Link] };
}

/** A socket of which the test says what it sends, and which keeps what it hears. */
class Bare {
  readonly socket: Socket = createSocket("udp4");
  readonly heard: Datagram[] = [];
  readonly #to: number;

  constructor(t: TestContext, to: number) {
    this.#to = to;
    this.socket.on("message", (datagram) => {
      const parsed = parseDatagram(datagram);
      if (parsed !== undefined) this.heard.push(parsed);
    });
    t.after(() => this.socket.close());
  }

  send(datagram: Uint8Array | Datagram): void {
    this.socket.send("kind" in datagram ? writeDatagram(datagram) : datagram, this.#to, LOOPBACK);
  }

  /** What is heard next, of this kind. */
  async next<K extends Datagram["kind"]>(kind: K): Promise<Extract<Datagram, { kind: K }>> {
    await until(`there is an answer ${kind}`, () => this.heard.length > 0);
    const first = this.heard.shift();
    assert.equal(first?.kind, kind);
    return first as Extract<Datagram, { kind: K }>;
  }

  /** Opens a connection and returns its number on the other side. */
  async open(id: bigint): Promise<bigint> {
    this.send({ kind: "open", id, cookie: new Uint8Array(16) });
    const { cookie } = await this.next("retry");
    this.send({ kind: "open", id, cookie });
    return (await this.next("accept")).accepting;
  }
}

function packet(id: bigint, parts: Partial<Packet> = {}): Packet {
  const usual = { isEnd: false, acknowledged: 0, window: MAX_WINDOW, ranges: [], offset: 0 };
  return { kind: "packet", id, ...usual, bytes: new Uint8Array(), ...parts };
}

describe("frames over UDP", () => {
  test("go both ways between a dialler and a listener", async (t) => {
    const { listener, accepting, dialling, ends } = await pair(t);
    const remote = `${LOOPBACK}:${listener.port}`;
    assert.deepEqual(dialling.inputs, [{ type: "PathOpened", path: 1, dial: 7, kind: "Ordered", remote }]);
    assert.deepEqual(accepting.inputs, [
      { type: "PathOpened", path: 1, dial: 0, kind: "Direct", remote: LOOPBACK },
    ]);
    const large = "x".repeat(65_536);
    for (const text of ["a", large, "b"]) ends[0].send(bytes(text));
    for (const text of ["c", "d"]) ends[1].send(bytes(text));
    await until("all are there", () => accepting.frames().length === 3 && dialling.frames().length === 2);
    assert.deepEqual(accepting.frames(), ["a", large, "b"]);
    assert.deepEqual(dialling.frames(), ["c", "d"]);
    dialling.table.get(1)?.close(1000, "");
    await until("the other side hears of the end", () => accepting.table.size === 0);
  });

  test("arrive in order and whole when they are many", async (t) => {
    const { accepting, dialling, ends } = await pair(t);
    const frames = Array.from({ length: 120 }, (_, index) => pattern(index, index + 65_536, 1));
    for (const frame of frames) for (const end of ends) end.send(frame);
    for (const host of [accepting, dialling]) {
      await until("all are there", () => host.inputs.length === 1 + frames.length);
      for (const [index, frame] of frames.entries()) {
        const input = host.inputs[index + 1];
        assert.ok(input?.type === "Received" && Buffer.compare(input.frame, frame) === 0, `frame ${index}`);
      }
    }
  });

  test("that were queued go out before the end", async (t) => {
    const { accepting, dialling, ends } = await pair(t);
    for (let index = 0; index < 40; index++) ends[0].send(new Uint8Array(65_536).fill(index));
    dialling.table.get(1)?.close(1000, "");
    await until("the other side hears of the end", () => accepting.table.size === 0);
    assert.equal(accepting.frames().length, 40);
  });

  test("are refused when the peer takes them too slowly", async (t) => {
    const { listener } = await listening(t);
    const bare = new Bare(t, listener.port);
    // It acknowledges nothing.
    const host = dial(await silentPort(t, bare));
    await until("the path is open", () => host.links.length === 1);
    const frame = new Uint8Array(65_536);
    assert.throws(() => {
      for (let index = 0; index < 1_000; index++) host.links[0]?.send(frame);
    }, /too slowly/);
    host.table.closeAll(1000, "");
  });

  test("close the connection when they are too long", async (t) => {
    const { listener, host } = await listening(t);
    const bare = new Bare(t, listener.port);
    const id = await bare.open(5n);
    bare.send(packet(id, { bytes: Uint8Array.of(1, 0, 1, 0) }));
    assert.equal((await bare.next("packet")).isEnd, true);
    assert.equal(host.table.size, 0);
    bare.send({ kind: "reset", id });
  });

  test("wait for a reader that stops, and all come when it goes on", async (t) => {
    const { listener, host } = await listening(t);
    const stream = await connectUdp(LOOPBACK, listener.port, new AbortController().signal);
    t.after(() => stream.destroy());
    await until("the path is open", () => host.links.length === 1);
    for (let index = 0; index < 60; index++) host.links[0]?.send(new Uint8Array(65_532).fill(index));
    stream.read(0);
    await until("no more is taken", () => stream.readableLength >= stream.readableHighWaterMark);
    let length = 0;
    for await (const chunk of stream) {
      length += (chunk as Uint8Array).length;
      if (length === 60 * 65_536) break;
    }
    assert.equal(length, 60 * 65_536);
  });
});

/** The port of somebody who accepts a connection and says nothing afterwards. */
async function silentPort(t: TestContext, { socket }: Bare): Promise<number> {
  const silent = createSocket("udp4");
  silent.on("message", (datagram, { port, address }) => {
    const parsed = parseDatagram(datagram);
    if (parsed?.kind !== "open") return;
    silent.send(writeDatagram({ kind: "accept", id: parsed.id, accepting: 1n }), port, address);
  });
  silent.bind(0, LOOPBACK);
  await once(silent, "listening");
  t.after(() => silent.close());
  socket.unref();
  return silent.address().port;
}

describe("a listener of UDP", () => {
  test("answers nobody of whom it does not know where they are", async (t) => {
    const { listener, host } = await listening(t);
    const [bare, other] = [new Bare(t, listener.port), new Bare(t, listener.port)];
    const zeros = new Uint8Array(16);
    bare.send(writeDatagram({ kind: "open", id: 1n, cookie: zeros }).subarray(0, 1_199));
    bare.send(Uint8Array.of(0x99));
    bare.send({ kind: "retry", id: 1n, cookie: zeros });
    bare.send({ kind: "accept", id: 1n, accepting: 2n });
    bare.send({ kind: "reset", id: 1n });
    bare.send({ kind: "open", id: 2n, cookie: zeros });
    // What came before got no answer.
    const { id, cookie } = await bare.next("retry");
    assert.equal(id, 2n);
    // A cookie is of one address and one id.
    bare.send({ kind: "open", id: 3n, cookie });
    assert.equal((await bare.next("retry")).id, 3n);
    other.send({ kind: "open", id: 2n, cookie });
    await other.next("retry");
    assert.equal(listener.size, 0);
    bare.send({ kind: "open", id: 2n, cookie });
    const { accepting } = await bare.next("accept");
    // The same again is the same connection.
    bare.send({ kind: "open", id: 2n, cookie });
    assert.equal((await bare.next("accept")).accepting, accepting);
    assert.equal(listener.size, 1);
    assert.equal(host.links.length, 1);
  });

  test("drops what comes from another address, and says what it does not know", async (t) => {
    const { listener, host } = await listening(t);
    const [bare, other] = [new Bare(t, listener.port), new Bare(t, listener.port)];
    const id = await bare.open(5n);
    other.send(packet(id, { bytes: joinFrames([bytes("forged")]) }));
    for (const known of [id, 5n]) other.send({ kind: "reset", id: known });
    other.send(packet(77n));
    assert.equal((await other.next("reset")).id, 77n);
    assert.equal(host.table.size, 1);
    bare.send(packet(id, { bytes: joinFrames([bytes("own")]) }));
    await until("it is there", () => host.frames().length === 1);
    assert.deepEqual(host.frames(), ["own"]);
    assert.equal((await bare.next("packet")).acknowledged, 7);
  });

  for (const whose of ["the one", "the other"] as const) {
    test(`forgets a connection after a reset with the number of ${whose}`, async (t) => {
      const { listener, host } = await listening(t);
      const bare = new Bare(t, listener.port);
      const id = await bare.open(5n);
      bare.send({ kind: "reset", id: whose === "the one" ? id : 5n });
      await until("the path is closed", () => host.table.size === 0 && listener.size === 0);
      bare.send(packet(id));
      assert.equal((await bare.next("reset")).id, id);
    });
  }

  test("acknowledges the end again for a while, and then knows nothing", async (t) => {
    const { listener } = await listening(t);
    const bare = new Bare(t, listener.port);
    const id = await bare.open(5n);
    const end = packet(id, { isEnd: true });
    bare.send(end);
    const own = await bare.next("packet");
    assert.equal(own.acknowledged, 1);
    const ended = own.isEnd ? own : await bare.next("packet");
    assert.ok(ended.isEnd && ended.offset === 0);
    bare.send({ ...end, acknowledged: 1 });
    assert.equal((await bare.next("packet")).acknowledged, 1);
    await until("it is forgotten", () => listener.size === 0);
  });

  test("gives its port back, tells its peers, and accepts them anew on it", async (t) => {
    const { listener, accepting, dialling } = await pair(t);
    const { port } = listener;
    await listener.close();
    await until("both paths are closed", () => dialling.table.size === 0 && accepting.table.size === 0);
    const again = await listening(t, port);
    dial(port, dialling);
    await until("there is another path", () => again.host.links.length === 1 && dialling.table.size === 1);
    dialling.table.closeAll(1000, "");
  });

  test("that ends its paths sends what is queued before it gives its port back", async (t) => {
    const { listener, accepting, dialling } = await pair(t);
    for (let index = 0; index < 40; index++) accepting.links[0]?.send(new Uint8Array(65_536).fill(index));
    accepting.table.closeAll(1000, "");
    await listener.close();
    await until("the path is closed", () => dialling.table.size === 0);
    assert.equal(dialling.frames().length, 40);
  });
});

/** A way to a port that loses, and that can lead elsewhere later. Each dialler has a socket of its own behind it. */
class Way {
  readonly socket: Socket = createSocket("udp4");
  /** Every so many datagrams, one is lost; none if 0. */
  loses = 0;
  lost = 0;
  to: number;
  readonly #behind: Map<number, Socket> = new Map();
  #count = 0;

  constructor(to: number) {
    this.to = to;
    this.socket.on("message", (datagram, from) => this.#forward(datagram, from));
  }

  async listen(): Promise<number> {
    this.socket.bind(0, LOOPBACK);
    await once(this.socket, "listening");
    return this.socket.address().port;
  }

  close(): void {
    for (const socket of [this.socket, ...this.#behind.values()]) socket.close();
  }

  #forward(datagram: Uint8Array, { port }: RemoteInfo): void {
    let behind = this.#behind.get(port);
    if (behind === undefined) {
      behind = createSocket("udp4");
      behind.on("message", (answer) => {
        if (!this.#isLost()) this.socket.send(answer, port, LOOPBACK);
      });
      this.#behind.set(port, behind);
    }
    if (!this.#isLost()) behind.send(datagram, this.to, LOOPBACK);
  }

  #isLost(): boolean {
    this.#count++;
    if (this.loses === 0 || this.#count % this.loses !== 0) return false;
    this.lost++;
    return true;
  }
}

describe("a dialler of UDP", () => {
  test("notices at once that the other side was started again", async (t) => {
    const [first, second] = [await listening(t), await listening(t)];
    const way = new Way(first.listener.port);
    t.after(() => way.close());
    const dialling = dial(await way.listen());
    await until("the path is open", () => dialling.table.size === 1 && first.host.links.length === 1);
    // It knows none of the connections of the one before.
    way.to = second.listener.port;
    dialling.links[0]?.send(bytes("anybody?"));
    await until("the path is closed", () => dialling.table.size === 0);
    assert.deepEqual(second.host.frames(), []);
  });

  test("fails at once where nobody listens", async () => {
    const host = dial(await freeUdpPort());
    await until("the dial failed", () => host.failures.length === 1);
    assert.match(host.failures[0] ?? "", /^udp:.*ECONNREFUSED/);
  });

  test("asks again when it is not answered, and gives up after 10 s", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const silent = createSocket("udp4");
    t.after(() => silent.close());
    silent.bind(0, LOOPBACK);
    await once(silent, "listening");
    let asked = 0;
    silent.on("message", (datagram) => {
      assert.equal(parseDatagram(datagram)?.kind, "open");
      asked++;
    });
    const turns = async (condition: () => boolean): Promise<void> => {
      while (!condition()) await new Promise(setImmediate);
    };
    const host = dial(silent.address().port);
    await turns(() => asked === 1);
    for (const [index, pause_ms] of [250, 500, 1_000, 2_000, 2_000, 2_000].entries()) {
      t.mock.timers.tick(pause_ms - 1);
      await new Promise(setImmediate);
      assert.equal(asked, index + 1);
      t.mock.timers.tick(1);
      await turns(() => asked === index + 2);
    }
    t.mock.timers.tick(2_250);
    await turns(() => host.failures.length === 1);
    assert.match(host.failures[0] ?? "", /no answer in time/);
  });

  test("does not listen to others, nor to answers to others", async (t) => {
    const host = new Host();
    const server = createSocket("udp4");
    t.after(() => server.close());
    const stranger = createSocket("udp4");
    t.after(() => stranger.close());
    server.bind(0, LOOPBACK);
    await once(server, "listening");
    const opens: { id: bigint; port: number }[] = [];
    const resets: bigint[] = [];
    server.on("message", (datagram, { port }) => {
      const parsed = parseDatagram(datagram);
      if (parsed?.kind === "open") opens.push({ id: parsed.id, port });
      if (parsed?.kind === "reset") resets.push(parsed.id);
    });
    dial(server.address().port, host);
    await until("it asks", () => opens.length > 0);
    const { id, port } = opens[0] ?? { id: 0n, port: 0 };
    stranger.send(writeDatagram({ kind: "accept", id, accepting: 1n }), port, LOOPBACK);
    server.send(writeDatagram({ kind: "accept", id: id + 1n, accepting: 1n }), port, LOOPBACK);
    server.send(writeDatagram({ kind: "reset", id }), port, LOOPBACK);
    server.send(writeDatagram(packet(id + 1n)), port, LOOPBACK);
    await until("it says that it does not know that", () => resets.length === 1);
    assert.deepEqual(resets, [id + 1n]);
    assert.equal(host.links.length, 0);
    server.send(writeDatagram({ kind: "accept", id, accepting: 1n }), port, LOOPBACK);
    await until("the path is open", () => host.links.length === 1);
    server.send(writeDatagram({ kind: "reset", id: 1n }), port, LOOPBACK);
    await until("the path is closed", () => host.table.size === 0);
  });

  test("does not go inside unless that is meant", async () => {
    const port = await freeUdpPort();
    const reasons = async (
      options: ConstructorParameters<typeof UdpDialler>[0],
      url: string,
    ): Promise<string> => {
      const host = new Host();
      new UdpDialler(options).dial(1, url, host);
      await until("the dial failed", () => host.failures.length === 1);
      return host.failures[0] ?? "";
    };
    for (const host of [LOOPBACK, "[::1]", "localhost"]) {
      assert.match(await reasons({}, `udp://${host}:${port}`), /a private address/);
    }
    const url = `udp://${LOOPBACK}:${port}`;
    assert.match(await reasons({ allowPrivate: true }, url), /ECONNREFUSED/);
    assert.match(await reasons({ bootstrap: [`${url}#id`, "udp://none"] }, url), /ECONNREFUSED/);
    // What is meant over TCP is not meant over UDP.
    assert.match(await reasons({ bootstrap: `tcp://${LOOPBACK}:${port}#id` }, url), /a private address/);
  });
});

describe("addresses of UDP", () => {
  test("have a host and a port and nothing else", () => {
    assert.deepEqual(placeOf("udp://[::1]:7002#id", "udp"), { host: "::1", port: 7002 });
    for (const wrong of ["udp://host", "udp://host:0", "udp://host:1/path", "tcp://host:1"]) {
      assert.throws(() => placeOf(wrong, "udp"), { message: "an address of UDP is udp://host:port" }, wrong);
    }
  });

  test("to listen at are URLs", () => {
    assert.deepEqual(listenersOf("udp://[::]:7002"), [{ speaks: "udp", port: 7002, hostname: "::" }]);
    assert.throws(() => listenersOf("udp://host"), { name: "BadConfig", message: /udp:\/\/0\.0\.0\.0:7002/ });
  });
});

describe("nodes over UDP", () => {
  let first: TestNode;
  let second: TestNode;
  before(async () => {
    first = await member({ scheme: "udp" });
    second = await member({ scheme: "udp", bootstrap: first.bootstrap });
  });
  after(async () => {
    await second.mesh.close();
    await first.mesh.close();
  });

  test("call each other with large bodies", async () => {
    const nodes = [first.mesh, second.mesh];
    assert.equal(first.mesh.port, placeOf(first.bootstrap, "udp").port);
    for (const [index, mesh] of nodes.entries()) {
      await mesh.serve(`echo${index}`, (request) => new Response(request.body), UNOWNED);
    }
    const body = pattern(0, 4 * MIB, 1);
    await Promise.all(
      nodes.map(async (mesh, index) => {
        const answer = await mesh.fetch(`https://echo${1 - index}.mesh/`, {
          method: "POST",
          body,
          ...UNOWNED,
        });
        assert.ok(Buffer.compare(new Uint8Array(await answer.arrayBuffer()), body) === 0);
      }),
    );
  });

  test("call each other over a way that loses every tenth datagram", async () => {
    const inside = await freeUdpPort();
    const way = new Way(inside);
    const outside = await way.listen();
    way.loses = 10;
    const provider = await member({
      bootstrap: first.bootstrap,
      listen: `udp://${LOOPBACK}:${inside}`,
      address: `udp://${LOOPBACK}:${outside}`,
    });
    await provider.mesh.serve("lossy", (request) => new Response(request.body), UNOWNED);
    const caller = await leaf(first.bootstrap);
    const body = pattern(0, MIB, 1);
    const answer = await caller.fetch("https://lossy.mesh/", { method: "POST", body, ...UNOWNED });
    assert.ok(Buffer.compare(new Uint8Array(await answer.arrayBuffer()), body) === 0);
    assert.ok(way.lost > (2 * MIB) / MAX_SEGMENT / 10, `${way.lost} datagrams were lost`);
    await caller.close();
    await provider.mesh.close();
    way.close();
  });

  test("drop datagrams that mean nothing and serve on", async (t) => {
    await first.mesh.serve("alive", () => new Response("yes"), UNOWNED);
    const { port } = placeOf(first.bootstrap, "udp");
    const bare = new Bare(t, port);
    const id = await bare.open(5n);
    for (let index = 0; index < 200; index++) {
      const noise = pattern(index * 100, index * 100 + index * 6, 9);
      bare.send(noise);
      bare.send(packet(id, { offset: index * 7, bytes: noise.subarray(0, MAX_SEGMENT) }));
    }
    const other = await leaf(first.bootstrap);
    const response = await other.fetch("https://alive.mesh/", UNOWNED);
    assert.equal(await response.text(), "yes");
    await other.close();
    bare.send({ kind: "reset", id });
  });
});
