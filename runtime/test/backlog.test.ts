import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Server, type Socket } from "node:net";
import { describe, type TestContext, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { WebSocket } from "ws";
import { MAX_WAITING } from "../src/driver/backlog.ts";
import { type Link, MAX_FRAME } from "../src/driver/paths.ts";
import { ExchangeAcceptor } from "../src/transports/exchange-accept.ts";
import { TrustedProxies } from "../src/transports/forwarded.ts";
import { acceptSockets } from "../src/transports/node.ts";
import { listenTcp } from "../src/transports/tcp.ts";
import { connectUdp } from "../src/transports/udp/dial.ts";
import { listenUdp } from "../src/transports/udp/listen.ts";
import { MAX_WINDOW } from "../src/transports/udp/packet.ts";
import { Host, turn, until, WatchedSockets } from "./support.ts";

const MIB = 1024 * 1024;
const frame: Uint8Array = new Uint8Array(MAX_FRAME).fill(7);
/** Bytes that a peer over UDP takes before its reader does. */
const PEER_MOST: number = MAX_WINDOW + 2 * MAX_FRAME;
const portOf = (server: Server): number => (server.address() as AddressInfo).port;

/** The far end of a path, which reads nothing until it is resumed. */
interface Peer {
  /** The path's number. */
  readonly path: number;
  readonly socket: Socket;
}

/** A host that accepts peers over TCP and WebSocket. */
interface Accepting {
  readonly host: Host;
  readonly watched: WatchedSockets;
  readonly tcp: () => Promise<Peer>;
  /** A peer that a proxy forwards for this address. */
  readonly ws: (source?: string) => Promise<Peer>;
}

async function accepting(t: TestContext): Promise<Accepting> {
  const host = new Host();
  const tcp = await listenTcp({ port: 0, hostname: "127.0.0.1" }, host);
  const http = createServer();
  const release = acceptSockets(http, host, new TrustedProxies(["127.0.0.1"]));
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  const sockets: Socket[] = [];
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    release();
    http.close();
    tcp.close();
  });
  const opened = async (open: () => Promise<Socket>): Promise<Peer> => {
    const path = host.links.length + 1;
    const socket = await open();
    sockets.push(socket.pause());
    socket.on("error", () => undefined);
    await until("the path is open", () => host.links.length === path);
    return { path, socket };
  };
  return {
    host,
    watched: new WatchedSockets(tcp, http),
    tcp: () => opened(async () => connect({ port: portOf(tcp), host: "127.0.0.1", allowHalfOpen: true })),
    ws: (source = "") => opened(() => upgraded(portOf(http), source)),
  };
}

/** The socket of a WebSocket that is open. */
async function upgraded(port: number, source: string): Promise<Socket> {
  const headers = source === "" ? {} : { "x-forwarded-for": source };
  const webSocket = new WebSocket(`ws://127.0.0.1:${port}/.mesh`, "selfsame.1", { headers });
  webSocket.on("error", () => undefined);
  const [response] = (await once(webSocket, "upgrade")) as [{ socket: Socket }];
  return response.socket;
}

/** Sends frames on a path until so many bytes wait or it is closed. */
function fill({ table }: Host, number: number, bytes: number): void {
  const waiting = (): number => table.get(number)?.waitingBytes ?? bytes;
  while (waiting() < bytes) table.send(number, frame);
}

/** A POST without frames of the path with this number. */
function posted(path: number): Request {
  const token = path.toString(16).padStart(32, "0");
  const headers = { "content-type": "application/selfsame", "selfsame-path": token };
  return new Request("https://host/", { method: "POST", headers });
}

/** Bytes of buffers that somebody still refers to. */
function heldBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  collect();
  // What was found to be free is given back beside the program, at the latest when it is looked for again.
  collect();
  return process.memoryUsage().arrayBuffers;
}

describe("bytes that wait to be sent", () => {
  test("are bounded on all paths, and peers that read keep theirs", async (t) => {
    const { host, watched, tcp, ws } = await accepting(t);
    const idle: Peer[] = [];
    for (let count = 0; count < 4; count++) idle.push(await tcp(), await ws());
    const honest = [await tcp(), await ws()];
    const read = honest.map(({ socket }) => {
      let bytes = 0;
      socket.on("data", (chunk) => {
        bytes += chunk.length;
      });
      socket.resume();
      return () => bytes;
    });
    let most = 0;
    for (let round = 0; round < 512; round++) {
      for (const { path } of [...idle, ...honest]) host.table.send(path, frame);
      most = Math.max(most, watched.waitingBytes);
      await turn();
    }
    assert.ok(most <= MAX_WAITING, `${most} bytes`);
    assert.ok(most > MAX_WAITING / 2, `the bound was not reached: ${most} bytes`);
    for (const { path } of honest) assert.ok(host.table.get(path), "who reads keeps the path");
    await until("all frames are there", () => read.every((bytes) => bytes() >= 512 * MAX_FRAME));
  });

  test("are taken from the source with the most, which loses its largest path", async (t) => {
    const { host, ws } = await accepting(t);
    const stranger = [await ws("1.1.1.1"), await ws("1.1.1.1"), await ws("1.1.1.1"), await ws("1.1.1.1")];
    const others = [await ws("1.1.2.1"), await ws("2606:4700::1")];
    for (const [index, { path }] of stranger.entries()) fill(host, path, index === 2 ? 11 * MIB : 10 * MIB);
    for (const { path } of others) fill(host, path, 12 * MIB);
    const open = [...stranger, ...others].map(({ path }) => host.table.get(path) !== undefined);
    assert.deepEqual(open, [true, true, false, true, true, true]);
  });

  for (const [what, kind, end] of [
    ["TCP that the node closes", "tcp", ({ table }, { path }) => table.get(path)?.close(1000, "")],
    ["TCP whose peers end them", "tcp", (_, { socket }) => socket.resume().end().pause()],
    ["WebSocket that the node closes", "ws", ({ table }, { path }) => table.get(path)?.close(1000, "")],
  ] as const satisfies [string, "tcp" | "ws", (host: Host, peer: Peer) => void][]) {
    test(`count on paths over ${what}, until they are sent`, async (t) => {
      const { host, watched, ...peers } = await accepting(t);
      for (let count = 0; count < 8; count++) {
        const peer = await peers[kind]();
        fill(host, peer.path, 15 * MIB);
        end(host, peer);
        await until("the path is closed", () => host.table.size === 0);
        assert.ok(watched.waitingBytes <= MAX_WAITING, `${watched.waitingBytes} bytes`);
      }
    });
  }

  test("count for POSTs, on closed paths too while an answer is open", async () => {
    const host = new Host();
    const acceptor = new ExchangeAcceptor(host);
    const post = (path: number): Promise<Response> => acceptor.handle(posted(path), "");
    const answers: Response[] = [];
    for (let path = 1; path <= 24; path++) {
      await post(path);
      host.links[path - 1]?.busy?.(true);
      answers.push(await post(path));
      fill(host, path, 4 * MIB - MAX_FRAME);
      if (path % 2 === 0) host.table.get(path)?.close(1000, "");
      const waiting = host.links.reduce((sum, { waitingBytes }) => sum + waitingBytes, 0);
      assert.ok(waiting <= MAX_WAITING, `${waiting} bytes`);
    }
    for (const link of host.links) link.busy?.(false);
    const lengths = await Promise.all(answers.map(async (answer) => (await answer.arrayBuffer()).byteLength));
    assert.ok(lengths.filter((length) => length > 3 * MIB).length >= 12, "who reads gets all that waited");
    assert.ok(host.links.every(({ waitingBytes }) => waitingBytes === 0));
  });

  for (const kind of ["tcp", "ws", "POSTs"] as const) {
    test(`keep nothing else of what the core said at the time: ${kind}`, async (t) => {
      const { host, ...peers } = await accepting(t);
      if (kind === "POSTs") new ExchangeAcceptor(host).handle(posted(1), "");
      else fill(host, (await peers[kind]()).path, 8 * MIB);
      await until("the path is open", () => host.table.size === 1);
      const before = heldBytes();
      for (let count = 0; count < 64; count++) host.table.send(1, new Uint8Array(MIB).subarray(0, 64));
      await turn();
      const more = heldBytes() - before;
      assert.ok(more < 8 * MIB, `${more} bytes`);
    });
  }

  test("hold no answers to pings", async (t) => {
    const { host, watched, ws } = await accepting(t);
    const { path, socket } = await ws();
    fill(host, path, 8 * MIB);
    const before = watched.waitingBytes;
    // Text and binary frames of a client, with a mask of zeros (RFC 6455, 5.2).
    const ping = Buffer.concat([Uint8Array.of(0x81, 0x84, 0, 0, 0, 0), Buffer.from("ping")]);
    socket.write(Buffer.concat(Array<Buffer>(10_000).fill(ping)));
    socket.write(Uint8Array.of(0x82, 0x81, 0, 0, 0, 0, 7));
    await until("all pings are heard", () => host.frames().length === 1);
    assert.ok(watched.waitingBytes > 0 && watched.waitingBytes <= before, `${watched.waitingBytes} bytes`);
  });

  test("over UDP are those that were not acknowledged", async (t) => {
    const host = new Host();
    const listener = await listenUdp({ port: 0, hostname: "127.0.0.1" }, host);
    const peer = await connectUdp("127.0.0.1", listener.port, AbortSignal.timeout(10_000));
    t.after(async () => {
      peer.destroy();
      await listener.close();
    });
    await until("the path is open", () => host.links.length === 1);
    const [link] = host.links as [Link];
    for (let sent = MAX_FRAME + 4; sent < 4 * MIB; sent += MAX_FRAME + 4) {
      host.table.send(1, frame);
      await turn();
      const { waitingBytes } = link;
      assert.ok(waitingBytes <= sent && waitingBytes >= sent - PEER_MOST, `${waitingBytes} of ${sent}`);
    }
    peer.resume();
    await until("nothing waits", () => link.waitingBytes === 0);
  });
});
