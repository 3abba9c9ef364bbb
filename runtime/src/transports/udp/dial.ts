import { Buffer } from "node:buffer";
import type { RemoteInfo, Socket } from "node:dgram";
import { isIPv6 } from "node:net";
import { guarded } from "../../guard.ts";
import type { DialOptions } from "../place.ts";
import { StreamDialler } from "../stream.ts";
import { Connection } from "./connection.ts";
import { COOKIE_LENGTH, type Datagram, type Id, parseDatagram, writeDatagram } from "./packet.ts";
import { createUdp, makeRoom, randomId } from "./socket.ts";
import { UdpStream } from "./stream.ts";

/** How long to wait for an answer before asking again, at first; it is doubled each time. */
const FIRST_PAUSE_MS = 250;
/** Longest time to wait for an answer before asking again. */
const MAX_PAUSE_MS = 2_000;

/** Dials `udp` where the platform has `node:dgram`. */
export class UdpDialler extends StreamDialler {
  constructor(options: DialOptions) {
    super("udp", options, connectUdp);
  }
}

/** Opens a connection to a port of an IP address, on a socket of its own. */
export async function connectUdp(ip: string, port: number, signal: AbortSignal): Promise<UdpStream> {
  const socket = createUdp(isIPv6(ip) ? 6 : 4);
  try {
    await connected(socket, ip, port);
    makeRoom(socket);
    return await new Dialled(socket).open(signal);
  } catch (error) {
    socket.close();
    throw error;
  }
}

function connected(socket: Socket, ip: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once("error", reject);
    socket.connect(port, ip, (error?: Error) => {
      socket.off("error", reject);
      if (error === undefined) resolve();
      else reject(error);
    });
  });
}

/** A connection that this side asks for and then carries. */
class Dialled {
  readonly #socket: Socket;
  readonly #own: Id = randomId();
  readonly #peer: { readonly address: string; readonly port: number };
  readonly #opened: PromiseWithResolvers<UdpStream> = Promise.withResolvers();
  #cookie: Uint8Array = new Uint8Array(COOKIE_LENGTH);
  #pause_ms = FIRST_PAUSE_MS;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #stream: UdpStream | undefined;
  #isClosed = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    this.#peer = socket.remoteAddress();
    socket.on(
      "message",
      guarded("a datagram", (bytes: Uint8Array, from: RemoteInfo) => this.#hear(bytes, from)),
    );
    socket.on("error", (error: NodeJS.ErrnoException) => this.#failed(error));
  }

  /** Asks until the peer accepts. */
  async open(signal: AbortSignal): Promise<UdpStream> {
    const cancel = (): void => this.#opened.reject(signal.reason);
    signal.addEventListener("abort", cancel, { once: true });
    if (signal.aborted) cancel();
    this.#ask();
    try {
      return await this.#opened.promise;
    } finally {
      signal.removeEventListener("abort", cancel);
      clearTimeout(this.#timer);
    }
  }

  #ask(): void {
    this.#send(writeDatagram({ kind: "open", id: this.#own, cookie: this.#cookie }));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#pause_ms = Math.min(2 * this.#pause_ms, MAX_PAUSE_MS);
      this.#ask();
    }, this.#pause_ms);
  }

  #hear(bytes: Uint8Array, { address, port }: RemoteInfo): void {
    // Not every platform's connected sockets drop what others send.
    if (address !== this.#peer.address || port !== this.#peer.port) return;
    const datagram = parseDatagram(bytes);
    if (datagram === undefined) return;
    if (datagram.kind === "packet" && datagram.id !== this.#own) {
      this.#send(writeDatagram({ kind: "reset", id: datagram.id }));
    } else if (this.#stream === undefined) {
      this.#hearAnswer(datagram);
    } else if (datagram.kind === "packet") {
      this.#stream.receive(datagram);
    } else if (datagram.kind === "reset") {
      this.#stream.resetBy(datagram.id);
    }
  }

  #hearAnswer(datagram: Datagram): void {
    if (datagram.id !== this.#own) return;
    if (datagram.kind === "accept") this.#accepted(datagram.accepting);
    if (datagram.kind !== "retry" || Buffer.compare(datagram.cookie, this.#cookie) === 0) return;
    this.#cookie = datagram.cookie;
    this.#ask();
  }

  #accepted(peer: Id): void {
    const stream = new UdpStream(new Connection({ own: this.#own, peer }), {
      send: (datagram) => this.#send(datagram),
      gone: () => this.#close(),
    });
    // What is acknowledged after the end keeps no process alive.
    stream.once("close", () => this.#isClosed || this.#socket.unref());
    this.#stream = stream;
    this.#opened.resolve(stream);
  }

  #failed(error: NodeJS.ErrnoException): void {
    this.#opened.reject(error);
    // Whatever else is wrong with the way, a datagram was lost.
    if (error.code === "ECONNREFUSED") this.#stream?.refused();
  }

  #send(datagram: Uint8Array): void {
    if (!this.#isClosed) this.#socket.send(datagram);
  }

  #close(): void {
    this.#isClosed = true;
    this.#socket.close();
  }
}
