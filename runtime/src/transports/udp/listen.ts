import type { Socket } from "node:dgram";
import { once } from "node:events";
import type { PathHost } from "../../driver/paths.ts";
import { guarded } from "../../guard.ts";
import type { ListenPlace } from "../listen.ts";
import { Shares } from "../shares.ts";
import { carryStream } from "../stream.ts";
import { Connection } from "./connection.ts";
import { type Asker, Cookies } from "./cookie.ts";
import { type Datagram, type Id, parseDatagram, writeDatagram } from "./packet.ts";
import { boundUdp, randomId } from "./socket.ts";
import { UdpStream } from "./stream.ts";

/** Most connections of one listener; each may hold a window and what is queued in memory. */
const MAX_CONNECTIONS = 2048;
/** Most of them from one source. */
const MAX_FROM_SOURCE: number = MAX_CONNECTIONS / 4;

interface Accepted extends Asker {
  readonly stream: UdpStream;
  readonly own: Id;
}

/** Accepts connections on one socket. */
export class UdpListener {
  readonly #socket: Socket;
  readonly #paths: PathHost;
  readonly #cookies: Cookies = new Cookies();
  readonly #shares: Shares = new Shares(MAX_FROM_SOURCE, MAX_CONNECTIONS);
  /** By the numbers that they were given here. */
  readonly #byId: Map<Id, Accepted> = new Map();
  /** By who asked for them. */
  readonly #byAsker: Map<string, Accepted> = new Map();
  #isClosing = false;
  #isClosed = false;

  /** Listens on a bound socket. */
  constructor(socket: Socket, paths: PathHost) {
    this.#socket = socket;
    this.#paths = paths;
    socket.on(
      "message",
      guarded("a datagram", (bytes: Uint8Array, from: Asker) => this.#hear(bytes, from)),
    );
    // What could not be sent is lost, as it may be anywhere.
    socket.on("error", () => undefined);
  }

  /** The port it listens at. */
  get port(): number {
    return this.#socket.address().port;
  }

  /** How many connections it keeps. */
  get size(): number {
    return this.#byId.size;
  }

  /** Accepts nothing more, waits for connections that are ending, breaks the others off, and gives the port back. */
  async close(): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    const endings: Promise<unknown>[] = [];
    for (const { stream } of this.#byId.values()) {
      if (stream.closed) continue;
      if (stream.writableEnded) endings.push(once(stream, "close"));
      else stream.destroy();
    }
    await Promise.allSettled(endings);
    this.#isClosed = true;
    const closed = once(this.#socket, "close");
    this.#socket.close();
    await closed;
  }

  #hear(bytes: Uint8Array, { address, port }: Asker): void {
    const datagram = parseDatagram(bytes);
    // Nobody can be answered at port 0.
    if (datagram === undefined || port === 0) return;
    const from: Asker = { address, port };
    if (datagram.kind === "open") {
      this.#asked(datagram.id, datagram.cookie, from);
    } else if (datagram.kind === "packet") {
      const known = this.#byId.get(datagram.id);
      if (known === undefined) this.#answer({ kind: "reset", id: datagram.id }, from);
      else if (isOf(known, from)) known.stream.receive(datagram);
    } else if (datagram.kind === "reset") {
      const known = this.#byAsker.get(keyOf(from, datagram.id)) ?? this.#byId.get(datagram.id);
      if (known !== undefined && isOf(known, from)) known.stream.resetBy(datagram.id);
    }
  }

  #asked(id: Id, cookie: Uint8Array, from: Asker): void {
    if (this.#isClosing) return;
    const now = performance.now();
    if (!this.#cookies.proves(cookie, from, id, now)) {
      return this.#answer({ kind: "retry", id, cookie: this.#cookies.make(from, id, now) }, from);
    }
    const known = this.#byAsker.get(keyOf(from, id)) ?? this.#accept(id, from);
    if (known !== undefined) this.#answer({ kind: "accept", id, accepting: known.own }, from);
  }

  /** A new connection; `undefined` when there are too many. */
  #accept(peer: Id, from: Asker): Accepted | undefined {
    const own = randomId();
    if (this.#byId.has(own)) return undefined;
    const share = this.#shares.take(from.address);
    if (share === undefined) return undefined;
    const key = keyOf(from, peer);
    const stream = new UdpStream(new Connection({ own, peer }), {
      send: (datagram) => this.#send(datagram, from),
      gone: () => {
        this.#byId.delete(own);
        this.#byAsker.delete(key);
        share.release();
      },
    });
    const accepted: Accepted = { ...from, stream, own };
    this.#byId.set(own, accepted);
    this.#byAsker.set(key, accepted);
    carryStream(stream, this.#paths, { dial: 0, kind: "Direct", remote: from.address });
    return accepted;
  }

  #answer(datagram: Datagram, to: Asker): void {
    this.#send(writeDatagram(datagram), to);
  }

  #send(datagram: Uint8Array, { address, port }: Asker): void {
    if (!this.#isClosed) this.#socket.send(datagram, port, address);
  }
}

function keyOf({ address, port }: Asker, id: Id): string {
  return `${address} ${port} ${id}`;
}

function isOf(known: Accepted, { address, port }: Asker): boolean {
  return known.address === address && known.port === port;
}

/** Accepts peers on a port of its own. Resolves when it listens. */
export async function listenUdp(
  { hostname = "0.0.0.0", port }: ListenPlace,
  paths: PathHost,
): Promise<UdpListener> {
  return new UdpListener(await boundUdp(hostname, port), paths);
}
