/** What strangers do to a member, each from many public addresses, until they are stopped. */
import { randomBytes } from "node:crypto";
import { createSocket } from "node:dgram";
import { connect, type Socket } from "node:net";

import { PORTS } from "./ports.ts";

/** Networks of /24 that take part, and addresses of each. */
const NETWORKS = 5;
const ADDRESSES = 20;
/** Connections that are opened and say nothing, or not all. */
const CONNECTIONS = 5_000;
/** How many connections are being opened at a time. */
const OPENING = 100;
/** Datagrams at a time, and the pause between two such turns. */
const DATAGRAMS = 200;
const TURN_MS = 5;
/** A byte of each body arrives at this pace. */
const DRIP_MS = 1_000;
const BODY_BYTES = 1024 * 1024;

/** A body that is sent. */
interface Upload {
  readonly path: string;
  readonly type: string;
}

const FRAMES: Upload = { path: "/.mesh", type: "application/selfsame" };
const REQUEST: Upload = { path: "/", type: "application/vnd.selfsame.capsule" };
const FILE: Upload = { path: "/", type: "application/vnd.selfsame.capsule-file" };

/** An attack, which goes on until the signal is aborted. */
export type Attack = (ip: string, over: AbortSignal) => Promise<void>;

/** The attacks, by what is told of them. */
export const ATTACKS: Readonly<Record<string, Attack>> = {
  "half-open WebSockets": (ip, over) => hold(ip, PORTS.ws, over, () => undefined),
  "half-sent heads": (ip, over) =>
    hold(ip, PORTS.ws, over, (socket) => {
      socket.write(`GET /.mesh HTTP/1.1\r\nhost: ${ip}\r\n`);
    }),
  "half-open TCP": (ip, over) => hold(ip, PORTS.tcp, over, () => undefined),
  "half-sent frames": (ip, over) =>
    hold(ip, PORTS.tcp, over, (socket) => {
      socket.write(Buffer.from([0, 0, 1, 0, 7]));
    }),
  "dripping bodies": (ip, over) => hold(ip, PORTS.ws, over, (socket) => drip(ip, socket, FRAMES)),
  "UDP openings": (ip, over) => shower(ip, over, () => Buffer.concat([Buffer.from([0x50]), randomBytes(24)])),
  "UDP rubbish": (ip, over) => shower(ip, over, () => randomBytes(1200)),
};

/**
 * Those on a Durable Object. What has not sent its head does not get that far, and the platform says from where a request comes: the
 * connections that it lends stand for it.
 */
export const ON_WORKERS: Readonly<Record<string, Attack>> = {
  "idle WebSockets": (ip, over) =>
    hold(ip, PORTS.ws, over, (socket) => {
      const head = [
        "GET /.mesh HTTP/1.1",
        `host: ${ip}`,
        ...["connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13"],
        `sec-websocket-key: ${randomBytes(16).toString("base64")}`,
        forwarded(socket),
      ];
      socket.write(`${head.join("\r\n")}\r\n\r\n`);
    }),
  "dripping bodies": (ip, over) =>
    hold(ip, PORTS.ws, over, (socket) => drip(ip, socket, FRAMES, [forwarded(socket)])),
};

/** Those on a replica of capsules that answers over HTTP. */
export const ON_REPLICAS: Readonly<Record<string, Attack>> = {
  "half-open connections": (ip, over) => hold(ip, PORTS.ws, over, () => undefined),
  "half-sent heads": (ip, over) =>
    hold(ip, PORTS.ws, over, (socket) => {
      socket.write(`POST / HTTP/1.1\r\nhost: ${ip}\r\n`);
    }),
  "dripping requests": (ip, over) => hold(ip, PORTS.ws, over, (socket) => drip(ip, socket, REQUEST)),
  "dripping files": (ip, over) => hold(ip, PORTS.ws, over, (socket) => drip(ip, socket, FILE)),
};

function address(index: number): string {
  return `5.6.${100 + (index % NETWORKS)}.${1 + (Math.floor(index / NETWORKS) % ADDRESSES)}`;
}

/** Keeps as many connections open as it may; one that is closed is opened again. */
async function hold(
  ip: string,
  port: number,
  over: AbortSignal,
  begin: (socket: Socket) => void,
): Promise<void> {
  const sockets = new Set<Socket>();
  let index = 0;
  const one = async (): Promise<void> => {
    const socket = connect({ host: ip, port, localAddress: address(index++) });
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", () => undefined);
    await new Promise<void>((done) => {
      socket.once("connect", () => {
        begin(socket);
        done();
      });
      socket.once("close", () => done());
    });
  };
  const opener = async (): Promise<void> => {
    while (!over.aborted) {
      if (sockets.size < CONNECTIONS) await one();
      await new Promise((done) => setTimeout(done, TURN_MS));
    }
  };
  await Promise.all(Array.from({ length: OPENING }, opener));
  for (const socket of sockets) socket.destroy();
}

/** How the platform says who has opened a connection. */
const forwarded = (socket: Socket): string => `cf-connecting-ip: ${socket.localAddress}`;

function drip(ip: string, socket: Socket, { path, type }: Upload, more: readonly string[] = []): void {
  const head = [
    `POST ${path} HTTP/1.1`,
    `host: ${ip}`,
    `content-type: ${type}`,
    `selfsame-path: ${randomBytes(16).toString("hex")}`,
    `content-length: ${BODY_BYTES}`,
    ...more,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  const timer = setInterval(() => socket.write("x"), DRIP_MS);
  socket.once("close", () => clearInterval(timer));
}

async function shower(ip: string, over: AbortSignal, datagram: () => Buffer): Promise<void> {
  const sockets = await Promise.all(
    Array.from({ length: NETWORKS * ADDRESSES }, async (_, index) => {
      const socket = createSocket("udp4");
      socket.on("error", () => undefined);
      await new Promise<void>((done) => socket.bind({ address: address(index) }, done));
      return socket;
    }),
  );
  for (let turn = 0; !over.aborted; turn++) {
    for (let count = 0; count < DATAGRAMS; count++) {
      sockets[(turn + count) % sockets.length]?.send(datagram(), PORTS.udp, ip);
    }
    await new Promise((done) => setTimeout(done, TURN_MS));
  }
  for (const socket of sockets) socket.close();
}
