import { MeshError } from "../codec/code.ts";
import type { Timer, Timers } from "../driver/timers.ts";
import { guarded } from "../guard.ts";
import type { Share, Shares } from "../transports/shares.ts";
import { closeSocket, type Socket } from "../transports/websocket.ts";
import { requestHeadOf } from "./datagram.ts";
import { CROWDED, type Exchange, type Exchanges, type ResponseSink } from "./exchanges.ts";
import { MAX_BODY } from "./limits.ts";
import { CLOSE_CODES } from "./websocket-protocol.ts";

/** A socket that brings no request for so long is closed: its client asks again, while it waits, well before that. */
const IDLE_MS = 60_000;
const OPEN = 1;
/** Longest head of a frame that a server sends (RFC 6455, section 5.2). */
const HEAD_BYTES = 10;

/** The parts of a socket that was accepted. */
export interface AcceptedSocketParts {
  readonly socket: Socket;
  /** The address from which it counts. */
  readonly ip: string;
  readonly exchanges: Exchanges;
  /** Bytes that wait to be sent on all sockets. */
  readonly waiting: Shares;
  readonly timers: Timers;
  /** Gives back the room of what was sent on all sockets. */
  readonly recount: () => void;
  /** Learns that the connection has ended. */
  readonly gone: () => void;
}

/** A WebSocket of a client: each message is a request, and each response one. */
export class AcceptedSocket implements ResponseSink {
  readonly #parts: AcceptedSocketParts;
  /** Requests that have no answer yet. */
  readonly #open: Map<string, Exchange> = new Map();
  readonly #opened: Share;
  readonly #held: Share;
  readonly #waiting: Share;
  #heard_ms: number = performance.now();
  #timer: Timer | undefined;
  #isClosed = false;

  constructor(parts: AcceptedSocketParts) {
    const { socket, ip, exchanges, waiting } = parts;
    this.#parts = parts;
    this.#opened = exchanges.open.shareOf(ip);
    this.#held = exchanges.held.shareOf(ip);
    this.#waiting = waiting.shareOf(ip);
    socket.binaryType = "arraybuffer";
    const hear = ({ data }: { data: unknown }): void => this.#hear(data);
    socket.addEventListener("message", guarded("a socket of the RPC", hear));
    const gone = guarded("a socket of the RPC", () => this.#gone());
    socket.addEventListener("close", gone);
    socket.addEventListener("error", gone);
    this.#wait();
  }

  /** Counts bytes that have arrived, of a message that is not whole yet. */
  arriving(bytes: number): void {
    if (!this.#held.grow(bytes)) this.#drop(CLOSE_CODES.tryAgainLater, CROWDED);
  }

  /** Gives back the room of what was sent. */
  recount(): void {
    this.#waiting.keep(this.#parts.socket.bufferedAmount || 0);
  }

  respond(datagram: Uint8Array<ArrayBuffer>): void {
    const { socket, recount } = this.#parts;
    if (this.#isClosed || socket.readyState !== OPEN) return;
    const bytes = HEAD_BYTES + datagram.length;
    if (!this.#waiting.grow(bytes)) {
      recount();
      if (!this.#waiting.grow(bytes))
        return this.#drop(CLOSE_CODES.policyViolation, "responses are taken too slowly");
    }
    try {
      socket.send(datagram);
    } catch {
      // It has closed meanwhile, or the platform ties it to another request. Its client brings its requests again.
      this.#end();
    }
  }

  ended(exchange: Exchange): void {
    if (this.#open.get(exchange.id) !== exchange) return;
    this.#open.delete(exchange.id);
    this.#opened.shrink(1);
  }

  lost(): void {
    this.close(CLOSE_CODES.internalError, "the server starts anew");
  }

  /** Closes it: responses to its requests are not sent here any more. */
  close(code: number, reason: string): void {
    if (this.#isClosed) return;
    this.#end();
    closeSocket(this.#parts.socket, code, reason);
  }

  #hear(data: unknown): void {
    this.#held.release();
    if (this.#isClosed) return;
    if (!(data instanceof ArrayBuffer))
      return this.close(CLOSE_CODES.unsupportedData, "a message is one datagram, in binary");
    if (data.byteLength > MAX_BODY)
      return this.close(CLOSE_CODES.tooBig, `a message has at most ${MAX_BODY} bytes`);
    this.#heard_ms = performance.now();
    const bytes = new Uint8Array(data);
    const head = requestHeadOf(bytes);
    if (head === undefined || head.isPart)
      return this.close(CLOSE_CODES.policyViolation, "a message is one whole request");
    this.#begin(bytes, head.id);
  }

  #begin(bytes: Uint8Array, id: string): void {
    const { exchanges, ip } = this.#parts;
    const isOpen = this.#open.has(id);
    if (!isOpen && !this.#opened.grow(1)) return this.close(CLOSE_CODES.tryAgainLater, CROWDED);
    try {
      const exchange = exchanges.begin(bytes, id, ip, this);
      if (!isOpen) this.#open.set(id, exchange);
    } catch (error) {
      if (!(error instanceof MeshError)) throw error;
      this.close(CLOSE_CODES.tryAgainLater, error.message);
    }
  }

  /** Closes it without waiting until its client has read what was sent, where the platform can. */
  #drop(code: number, reason: string): void {
    this.close(code, reason);
    this.#parts.socket.terminate?.();
  }

  #end(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    for (const { sinks } of this.#open.values()) sinks.delete(this);
    this.#open.clear();
    this.#opened.release();
  }

  #gone(): void {
    if (!this.#isClosed) this.#end();
    this.#held.release();
    this.#waiting.release();
    this.#parts.gone();
  }

  #wait(): void {
    const left_ms = IDLE_MS - (performance.now() - this.#heard_ms);
    const look = guarded("a socket of the RPC", () => this.#look());
    this.#timer = this.#parts.timers.after(Math.max(left_ms, 1), look);
    this.#timer.unref();
  }

  #look(): void {
    if (performance.now() - this.#heard_ms < IDLE_MS) return this.#wait();
    this.close(CLOSE_CODES.normal, "no request came for long");
  }
}
