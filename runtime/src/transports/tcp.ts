import { lookup } from "node:dns/promises";
import { connect, createServer, isIP, type Server, type Socket } from "node:net";
import type { Dialler, Link, Opened, Path, PathHost } from "../driver/paths.ts";
import { FrameSplitter, joinFrames } from "./frames.ts";
import { KeepAlive, unref } from "./keep-alive.ts";
import type { ListenPlace } from "./listen.ts";
import { DIAL_TIMEOUT_MS, MAX_BUFFERED } from "./protocol.ts";
import { isPublic } from "./public-address.ts";

/** Time for what is queued, and for the peer's last words, when a path is closed. */
const CLOSE_TIMEOUT_MS = 2_000;
/** Most IP addresses of one name that are tried. */
const MAX_TRIED = 4;
/** What says that this side lives: a frame of length 0. */
const ALIVE: Uint8Array = /* @__PURE__ */ joinFrames([/* @__PURE__ */ new Uint8Array()]);

/** Host and port of a connection. */
export interface TcpAddress {
  /** Name or IP, an IPv6 address without its brackets. */
  readonly host: string;
  /** The port. */
  readonly port: number;
}

/** What a TCP dialler may connect to. */
export interface TcpDialOptions {
  /** Whether private addresses may be dialled. */
  readonly allowPrivate?: boolean | undefined;
  /** URLs that whoever configured them means, wherever they lead. */
  readonly bootstrap?: string | readonly string[] | undefined;
}

/** Host and port of an address `tcp://host:port`; throws with what is wrong with another. */
export function tcpAddress(address: string): TcpAddress {
  const { protocol, hostname, port, pathname, username, search } = new URL(address);
  const isBare = (pathname === "" || pathname === "/") && username === "" && search === "";
  if (protocol !== "tcp:" || hostname === "" || !(Number(port) > 0) || !isBare) {
    throw new TypeError("an address of TCP is tcp://host:port");
  }
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) };
}

/** Carries the frames of a path over an open connection, whose half that the peer ends must not end the other. */
export function carryTcp(socket: Socket, host: PathHost, opened: Opened): Path {
  const splitter = new FrameSplitter();
  const keepAlive = new KeepAlive({
    dialled: opened.dial !== 0,
    ask: () => socket.write(ALIVE),
    giveUp: () => path.close(1001, "no answer"),
  });
  let isOpen = true;
  const hangUp = (): void => {
    if (!isOpen) return;
    isOpen = false;
    keepAlive.stop();
    // What is queued goes out, and what comes is read on for a moment: closing a socket with unread bytes resets it.
    socket.end();
    const timer = setTimeout(() => socket.destroy(), CLOSE_TIMEOUT_MS);
    unref(timer);
    socket.once("close", () => clearTimeout(timer));
  };
  const link: Link = { send: (frame) => send(socket, frame), close: hangUp };
  const path = host.open(link, opened);
  socket.on("data", (bytes) => {
    if (isOpen) receive(bytes, splitter, keepAlive, path, opened.dial === 0 ? socket : undefined);
  });
  const ended = (): void => {
    path.closed();
    hangUp();
  };
  socket.on("end", ended);
  socket.on("error", ended);
  socket.on("close", ended);
  if (socket.destroyed) ended();
  return path;
}

function send(socket: Socket, frame: Uint8Array): void {
  if (socket.writableLength > MAX_BUFFERED) throw new Error("the peer takes its frames too slowly");
  if (socket.writableCorked === 0) {
    // One write for all frames of the same turn.
    socket.cork();
    queueMicrotask(() => socket.uncork());
  }
  socket.write(joinFrames([frame]));
}

/** Hands in the frames that are whole now; each sign of life is answered on `answer`. */
function receive(
  bytes: Uint8Array,
  splitter: FrameSplitter,
  keepAlive: KeepAlive,
  path: Path,
  answer: Socket | undefined,
): void {
  try {
    let isAsked = false;
    for (const frame of splitter.push(bytes)) {
      // Bytes that are no whole frame are no sign of life.
      keepAlive.heard();
      if (frame.length > 0) path.received(frame);
      else isAsked = true;
    }
    // One answer serves for all that came at once: a peer that does not read must not make the queue grow.
    if (isAsked && answer?.writableLength === 0) answer.write(ALIVE);
  } catch {
    path.close(1009, "a frame has at most 65536 bytes");
  }
}

/** Accepts peers on a port of its own. Resolves when it listens. */
export function listenTcp({ hostname, port }: ListenPlace, paths: PathHost): Promise<Server> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    carryTcp(socket, paths, { dial: 0, kind: "Ordered", remote: socket.remoteAddress ?? "" });
  });
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, hostname, () => {
      server.off("error", reject);
      // A connection that could not be accepted is its peer's to try again.
      server.on("error", () => undefined);
      resolve(server);
    });
  });
}

/** Dials `tcp` where the platform has `node:net`. */
export class TcpDialler implements Dialler {
  readonly schemes: readonly string[] = ["tcp"];
  readonly #allowPrivate: boolean;
  readonly #trusted: ReadonlySet<string>;

  constructor({ allowPrivate = false, bootstrap = [] }: TcpDialOptions) {
    this.#allowPrivate = allowPrivate;
    // One that is no address is told of when it is dialled.
    this.#trusted = new Set([bootstrap].flat().flatMap((url) => placesOf(url)));
  }

  dial(dial: number, address: string, host: PathHost): void {
    const target = tcpAddress(address);
    const expired = new AbortController();
    const timer = setTimeout(() => expired.abort(new Error("no answer in time")), DIAL_TIMEOUT_MS);
    this.#connect(target, expired.signal)
      .then(
        (socket) => carryTcp(socket, host, { dial, kind: "Ordered", remote: placeOf(target) }),
        (error: Error) => host.dialFailed(dial, `${address}: ${error.message}`),
      )
      .finally(() => clearTimeout(timer));
  }

  async #connect(target: TcpAddress, signal: AbortSignal): Promise<Socket> {
    const { host, port } = target;
    const found = isIP(host) === 0 ? await lookup(host, { all: true }) : [{ address: host }];
    const isTrusted = this.#allowPrivate || this.#trusted.has(placeOf(target));
    // A public name may lead inside: what counts is where the connection would go.
    const allowed = found.filter(({ address }) => isTrusted || isPublic(address)).slice(0, MAX_TRIED);
    let failure = new Error("a private address: allow private addresses if that is meant");
    for (const { address } of allowed) {
      try {
        return await connected(address, port, signal);
      } catch (error) {
        failure = error as Error;
        if (signal.aborted) break;
      }
    }
    throw failure;
  }
}

function connected(host: string, port: number, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true });
    const cancel = (): void => {
      socket.destroy();
      reject(signal.reason);
    };
    signal.addEventListener("abort", cancel, { once: true });
    const settle = (act: () => void) => (): void => {
      signal.removeEventListener("abort", cancel);
      act();
    };
    socket.on("error", (error) => settle(() => reject(error))());
    socket.once(
      "connect",
      settle(() => resolve(socket)),
    );
    if (signal.aborted) cancel();
  });
}

function placesOf(url: string): string[] {
  try {
    return [placeOf(tcpAddress(url))];
  } catch {
    return [];
  }
}

function placeOf({ host, port }: TcpAddress): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
