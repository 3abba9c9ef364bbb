import { MeshError } from "../codec/code.ts";
import type { Logger } from "../driver/log.ts";
import type { Timers } from "../driver/timers.ts";
import type { FindSocket } from "../transports/websocket.ts";
import type { RpcAddress } from "./address.ts";
import { requestHeadOf } from "./datagram.ts";
import { DialledSocket } from "./dialled-socket.ts";
import { HTTP_DATAGRAM } from "./limits.ts";
import { Pauses } from "./pauses.ts";
import { UrlEndpoints } from "./url-endpoints.ts";
import type { Way, WayHost } from "./way.ts";

/** The number of this way in endpoints that stand for URLs. */
const WAY = 1;
/** Sockets at a time, one for each server. */
const MAX_SOCKETS = 1024;
/** How long a server is left alone that has let no socket be opened, or has closed one without a word. */
const PAUSE_MS = 1_000;

/** The parts of a way over WebSocket. */
export interface WebSocketWayParts {
  readonly host: WayHost;
  /** Finds what opens sockets. */
  readonly find: FindSocket;
  readonly timers: Timers;
  readonly logger: Logger;
}

/** Carries the datagrams of a client as messages of WebSockets: one for each server, which is dialled when it is called. */
export class WebSocketWay implements Way {
  readonly datagramBytes: number = HTTP_DATAGRAM;
  readonly #parts: WebSocketWayParts;
  readonly #endpoints: UrlEndpoints = new UrlEndpoints(WAY);
  readonly #sockets: Map<string, DialledSocket> = new Map();
  readonly #pauses: Pauses = new Pauses();
  #isBusy = false;
  #isClosed = false;

  constructor(parts: WebSocketWayParts) {
    this.#parts = parts;
  }

  endpointOf(address: RpcAddress): Uint8Array {
    return this.#endpoints.endpointOf(address.way === "websocket" ? address.url : "");
  }

  textOf(endpoint: Uint8Array): string {
    return this.#endpoints.urlOf(endpoint);
  }

  send(target: Uint8Array, datagram: Uint8Array): void {
    const url = this.textOf(target);
    const head = requestHeadOf(datagram);
    if (url === "" || head === undefined || this.#isClosed) return;
    const socket = this.#sockets.get(url) ?? this.#dial(url, target.slice());
    socket?.send(head, datagram);
  }

  busy(until_ms: number | undefined): void {
    const isBusy = until_ms !== undefined;
    if (isBusy === this.#isBusy) return;
    this.#isBusy = isBusy;
    for (const socket of this.#sockets.values()) {
      socket.hold(isBusy);
      if (!isBusy) socket.rest();
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const socket of this.#sockets.values()) socket.close();
  }

  #dial(url: string, endpoint: Uint8Array): DialledSocket | undefined {
    if (this.#pauses.includes(url) || this.#sockets.size >= MAX_SOCKETS) return undefined;
    const { host, find, timers } = this.#parts;
    const received = (bytes: Uint8Array): void => host.received(endpoint, bytes);
    const ended = (error: Error, hasHeard: boolean): void => {
      this.#sockets.delete(url);
      this.#ended(url, error, hasHeard);
    };
    const socket = new DialledSocket({ url, find, timers, received, ended }, this.#isBusy);
    this.#sockets.set(url, socket);
    return socket;
  }

  /** Datagrams that were under way are lost, unless nothing may be sent there at all. */
  #ended(url: string, error: Error, hasHeard: boolean): void {
    const { host, logger } = this.#parts;
    if (error instanceof MeshError && error.name === "ForbiddenAddress") return host.forbidden(url, error);
    if (!hasHeard) this.#pauses.begin(url, PAUSE_MS);
    logger.log("debug", `the WebSocket to ${url} has ended: ${error.message}`);
  }
}
