import type { Timers } from "../driver/timers.ts";
import { offersSubprotocol } from "../transports/protocol.ts";
import { type Share, Shares } from "../transports/shares.ts";
import type { Socket } from "../transports/websocket.ts";
import { AcceptedSocket } from "./accepted-socket.ts";
import type { Exchanges } from "./exchanges.ts";
import { refuse } from "./http-binding.ts";
import { MAX_BODY } from "./limits.ts";
import { CLOSE_CODES, RPC_SUBPROTOCOL } from "./websocket-protocol.ts";

/** Most sockets, of all sources and of one. */
const MAX_SOCKETS = 4096;
const SOURCE_SOCKETS: number = MAX_SOCKETS / 4;
/** Most bytes that wait to be sent, to all sources and to one: half of the 128 MB of an isolate, and two longest messages. */
const MAX_WAITING: number = 4 * MAX_BODY;
const SOURCE_WAITING: number = 2 * MAX_BODY;

/** A WebSocket that was accepted. */
export interface Upgraded {
  /** The server's side, open or about to be. */
  readonly socket: Socket;
  /** What answers the request, where the platform does not do so itself. */
  readonly response: Response;
  /** Tells of bytes before they are a message, where the platform can. */
  readonly onArriving?: ((hear: (bytes: number) => void) => void) | undefined;
}

/** Accepts the WebSocket that a request asks for, with the subprotocol of the RPC. */
export type Upgrade = (request: Request) => Upgraded;

/** The parts of a binding to WebSockets. */
export interface WebSocketParts {
  readonly timers: Timers;
  readonly exchanges: Exchanges;
}

/** Carries datagrams to a server of the RPC as messages of WebSockets, and back (docs/specification/rpc.md, "Over WebSocket"). */
export class WebSocketBinding {
  readonly #parts: WebSocketParts;
  readonly #places: Shares = new Shares(SOURCE_SOCKETS, MAX_SOCKETS);
  readonly #waiting: Shares = new Shares(SOURCE_WAITING, MAX_WAITING);
  readonly #sockets: Set<AcceptedSocket> = new Set();
  #isClosed = false;

  constructor(parts: WebSocketParts) {
    this.#parts = parts;
  }

  /** Accepts the WebSocket that a request from an IP address asks for. */
  accept(request: Request, ip: string, upgrade: Upgrade): Response {
    if (!offersSubprotocol(request.headers.get("sec-websocket-protocol"), RPC_SUBPROTOCOL))
      return refuse(400, `the subprotocol is ${RPC_SUBPROTOCOL}`);
    if (this.#isClosed) return refuse(503, "the server was closed");
    const place = this.#places.take(ip);
    if (place === undefined) return refuse(429, "too many sockets are open");
    const upgraded = upgradeOf(request, upgrade);
    if (upgraded === undefined) {
      place.release();
      return refuse(400, "the request does not ask for a WebSocket as RFC 6455 says");
    }
    this.#add(upgraded, ip, place);
    return upgraded.response;
  }

  /** Closes all sockets, and accepts no more. */
  close(): void {
    this.#isClosed = true;
    for (const socket of this.#sockets) socket.close(CLOSE_CODES.goingAway, "the server was closed");
  }

  #add({ socket, onArriving }: Upgraded, ip: string, place: Share): void {
    const accepted = new AcceptedSocket({
      socket,
      ip,
      waiting: this.#waiting,
      recount: () => this.#recount(),
      gone: () => {
        place.release();
        this.#sockets.delete(accepted);
      },
      ...this.#parts,
    });
    this.#sockets.add(accepted);
    onArriving?.((bytes) => accepted.arriving(bytes));
  }

  #recount(): void {
    for (const socket of this.#sockets) socket.recount();
  }
}

function upgradeOf(request: Request, upgrade: Upgrade): Upgraded | undefined {
  try {
    return upgrade(request);
  } catch {
    // Platforms throw what is wrong with the handshake.
    return undefined;
  }
}
