import { MeshError } from "../codec/code.ts";
import type { Timer, Timers } from "../driver/timers.ts";
import { guarded } from "../guard.ts";
import { closeSocket, type FindSocket, openSocket, type Socket } from "../transports/websocket.ts";
import { type RequestHead, requestHeadOf, responseHeadOf } from "./datagram.ts";
import { MAX_BODY } from "./limits.ts";
import { CLOSE_CODES } from "./websocket-protocol.ts";

/** Most bytes that wait to be sent: two of the longest messages. */
const MAX_BUFFERED: number = 2 * MAX_BODY;
/** Requests without an answer: fewer than a server lets one source have. */
const MAX_OPEN = 1000;
/** When for so long nothing was sent, or nothing was heard, a request that comes again is sent again: its server says that it has it. */
const QUIET_MS = 10_000;
/** A server that has said nothing for so long, though it was asked, is not there any more. */
const SILENCE_MS = 30_000;
/** A socket that nobody uses is closed after so long: before the server does so. */
const IDLE_MS = 30_000;

/** The parts of a socket that is dialled. */
export interface DialledSocketParts {
  readonly url: string;
  readonly find: FindSocket;
  readonly timers: Timers;
  /** Takes a datagram of the server. */
  readonly received: (bytes: Uint8Array) => void;
  /** Learns that it has ended, and whether the server was heard before. */
  readonly ended: (error: Error, hasHeard: boolean) => void;
}

/** The WebSocket of a client to one server, from when it is dialled. */
export class DialledSocket {
  readonly #parts: DialledSocketParts;
  readonly #giveUp: () => void;
  /** Datagrams that wait until it is open, by their tags. */
  readonly #queue: Map<string, Uint8Array> = new Map();
  #queuedBytes = 0;
  /** Tags of requests without an answer, by their calls. */
  readonly #open: Map<string, string> = new Map();
  #socket: Socket | undefined;
  #holds: boolean;
  #used_ms: number = performance.now();
  #sent_ms = 0;
  /** Since when an answer is waited for and nothing was heard. */
  #asked_ms: number | undefined;
  #repeated_ms: number = Number.NEGATIVE_INFINITY;
  #bufferedBytes = 0;
  #hasHeard = false;
  #isOver = false;
  #timer: Timer | undefined;

  /** `holds` says whether it keeps the process alive. */
  constructor(parts: DialledSocketParts, holds: boolean) {
    this.#parts = parts;
    this.#holds = holds;
    this.#giveUp = openSocket(new URL(parts.url), parts.find, {
      opened: (socket) => this.#opened(socket),
      failed: (error) => this.#end(error),
    });
  }

  /** Sends a datagram; one that does not leave is lost. */
  send(head: RequestHead, datagram: Uint8Array): void {
    this.#used_ms = performance.now();
    const socket = this.#socket;
    if (this.#isOver) return;
    if (socket === undefined) return this.#enqueue(head, datagram);
    const isRepeated = this.#open.get(head.call) === head.tag;
    if (isRepeated && !this.#mayRepeat(socket)) return;
    this.#transmit(socket, head, datagram);
  }

  /** Says whether it keeps the process alive. */
  hold(holds: boolean): void {
    this.#holds = holds;
    this.#socket?.hold?.(holds);
  }

  /** Forgets what it was asked to send: nobody waits for an answer. */
  rest(): void {
    this.#queue.clear();
    this.#queuedBytes = 0;
    this.#open.clear();
    this.#asked_ms = undefined;
  }

  /** Closes it. */
  close(): void {
    this.#finish(CLOSE_CODES.normal, "it is not used any more");
  }

  #enqueue({ tag, call, isCancel }: RequestHead, datagram: Uint8Array): void {
    if (isCancel) return this.#withdraw(call);
    const hasRoom = this.#queue.size < MAX_OPEN && this.#queuedBytes + datagram.length <= MAX_BUFFERED;
    if (!hasRoom || this.#queue.has(tag)) return;
    this.#queue.set(tag, datagram.slice());
    this.#queuedBytes += datagram.length;
  }

  #withdraw(call: string): void {
    for (const [tag, datagram] of this.#queue) {
      if (requestHeadOf(datagram)?.call !== call) continue;
      this.#queue.delete(tag);
      this.#queuedBytes -= datagram.length;
    }
  }

  #opened(socket: Socket): void {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    const hear = ({ data }: { data: unknown }): void => this.#hear(data);
    socket.addEventListener("message", guarded("a socket of the RPC", hear));
    const ended = guarded("a socket of the RPC", () => this.#end(new Error("the connection ended")));
    socket.addEventListener("close", ended);
    socket.addEventListener("error", ended);
    socket.hold?.(this.#holds);
    const queued = [...this.#queue.values()];
    this.#queue.clear();
    this.#queuedBytes = 0;
    for (const datagram of queued) {
      const head = requestHeadOf(datagram);
      if (head !== undefined && !this.#isOver) this.#transmit(socket, head, datagram);
    }
    if (!this.#isOver) this.#wait();
  }

  #transmit(socket: Socket, head: RequestHead, datagram: Uint8Array): void {
    const buffered = socket.bufferedAmount || 0;
    if (buffered > 0 && buffered + datagram.length > MAX_BUFFERED) return;
    if (!this.#note(head)) return;
    this.#sent_ms = performance.now();
    if (this.#open.get(head.call) === head.tag) this.#asked_ms ??= this.#sent_ms;
    try {
      socket.send(datagram as Uint8Array<ArrayBuffer>);
      this.#bufferedBytes = socket.bufferedAmount || 0;
    } catch (error) {
      // It has closed meanwhile.
      this.#end(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Notes a request that is to be answered; whether there is room for it. */
  #note({ call, tag, isControl, isCancel }: RequestHead): boolean {
    if (isCancel) this.#open.delete(call);
    // Other control packets are about a request that is under way, but for a probe.
    if (isCancel || (isControl && this.#open.has(call))) return true;
    if (this.#open.size >= MAX_OPEN && !this.#open.has(call)) return false;
    this.#open.set(call, tag);
    return true;
  }

  /** A stream loses nothing; a datagram that comes again asks whether the server is still there. */
  #mayRepeat(socket: Socket): boolean {
    const now_ms = performance.now();
    const buffered = socket.bufferedAmount || 0;
    // The server takes what was sent.
    if (buffered < this.#bufferedBytes) this.#asked_ms = now_ms;
    this.#bufferedBytes = buffered;
    const silent_ms = now_ms - (this.#asked_ms ?? now_ms);
    if (silent_ms >= SILENCE_MS) {
      this.#finish(CLOSE_CODES.goingAway, "the server is silent");
      socket.terminate?.();
      return false;
    }
    const isQuiet = Math.max(silent_ms, now_ms - this.#sent_ms) >= QUIET_MS;
    if (!isQuiet || buffered > 0 || now_ms - this.#repeated_ms < QUIET_MS) return false;
    this.#repeated_ms = now_ms;
    return true;
  }

  #hear(data: unknown): void {
    if (this.#isOver) return;
    if (!(data instanceof ArrayBuffer))
      return this.#finish(CLOSE_CODES.unsupportedData, "a message is one datagram, in binary");
    if (data.byteLength > MAX_BODY)
      return this.#finish(CLOSE_CODES.tooBig, `a message has at most ${MAX_BODY} bytes`);
    this.#used_ms = performance.now();
    this.#asked_ms = undefined;
    this.#hasHeard = true;
    const bytes = new Uint8Array(data);
    const head = responseHeadOf(bytes);
    if (head?.isFinal === true) this.#open.delete(head.call);
    this.#parts.received(bytes);
  }

  #finish(code: number, reason: string): void {
    const socket = this.#socket;
    this.#end(new MeshError("Cancelled", reason));
    if (socket === undefined) this.#giveUp();
    else closeSocket(socket, code, reason);
  }

  #end(error: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer?.cancel();
    this.rest();
    this.#parts.ended(error, this.#hasHeard);
  }

  #wait(): void {
    const left_ms = IDLE_MS - (performance.now() - this.#used_ms);
    const look = guarded("a socket of the RPC", () => this.#look());
    this.#timer = this.#parts.timers.after(Math.max(left_ms, 1), look);
    this.#timer.unref();
  }

  #look(): void {
    if (performance.now() - this.#used_ms < IDLE_MS) this.#wait();
    else this.close();
  }
}
