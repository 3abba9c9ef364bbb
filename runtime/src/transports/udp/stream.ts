import { Duplex } from "node:stream";
import { setImmediate } from "node:timers";
import { unref } from "../../driver/timers.ts";
import { guarded } from "../../guard.ts";
import type { Connection } from "./connection.ts";
import { type Id, MAX_WINDOW, type Packet } from "./packet.ts";

/** Whoever writes waits while so many bytes are kept: a window that is under way, and another one to follow it. */
const MAX_HELD: number = 2 * MAX_WINDOW;

/** What carries a connection. */
export interface Carrier {
  /** Sends a datagram to the peer. */
  send(datagram: Uint8Array<ArrayBuffer>): void;
  /** The connection needs to hear of nothing more. Told once. */
  gone(): void;
}

type Callback = (error?: Error | null) => void;

/**
 * The stream of a connection. Destroyed before both sides have ended, it breaks the connection off; after that, it goes on
 * to acknowledge what comes again for a while.
 */
export class UdpStream extends Duplex {
  readonly #connection: Connection;
  readonly #carrier: Carrier;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #isWanted = false;
  #isDelivering = false;
  #hasEnded = false;
  #isGone = false;
  /** Whoever wrote and waits for room, and how many bytes. */
  #written: Callback | undefined;
  #writtenBytes = 0;
  /** Whoever ended and waits until the peer has everything. */
  #finished: Callback | undefined;

  constructor(connection: Connection, carrier: Carrier) {
    super({ allowHalfOpen: true });
    this.#connection = connection;
    this.#carrier = carrier;
  }

  /** Bytes that were written and not acknowledged. */
  get keptBytes(): number {
    // What is written stays in both until there is room.
    return this.#connection.outgoing.held + this.writableLength - this.#writtenBytes;
  }

  /** A packet with the connection's own number came from the peer's address. */
  receive(packet: Packet): void {
    this.#connection.received(packet, performance.now());
    this.#go();
  }

  /** The peer says that it has no connection with this number. */
  resetBy(id: Id): void {
    this.#connection.resetBy(id);
    this.#go();
  }

  /** The network says that nobody listens there. */
  refused(): void {
    this.#connection.refused();
  }

  override _read(): void {
    this.#isWanted = true;
    this.#go();
  }

  override _write(chunk: Uint8Array, _: string, callback: Callback): void {
    this._writev([{ chunk }], callback);
  }

  override _writev(chunks: { readonly chunk: Uint8Array }[], callback: Callback): void {
    for (const { chunk } of chunks) {
      this.#connection.write(chunk);
      this.#writtenBytes += chunk.length;
    }
    this.#written = callback;
    this.#go();
  }

  override _final(callback: Callback): void {
    this.#connection.end();
    this.#finished = callback;
    this.#go();
  }

  override _destroy(error: Error | null, callback: Callback): void {
    this.#connection.abort("broken off");
    this.#go();
    callback(error);
    const reason = error ?? new Error("broken off");
    for (const waiting of [this.#written, this.#finished]) waiting?.(reason);
    this.#written = undefined;
    this.#finished = undefined;
  }

  /** Hands over what arrived, sends what may be sent, and tells those who wait. */
  #go(): void {
    const now = performance.now();
    this.#deliver(now);
    this.#send(now);
    this.#tell();
    this.#schedule(now);
  }

  #deliver(now: number): void {
    // Whoever hears of bytes may write, and so come here again, before it has done with them.
    if (this.#isDelivering) return;
    this.#isDelivering = true;
    while (this.#isWanted && !this.#hasEnded && !this.destroyed) {
      const bytes = this.#connection.read(now);
      if (bytes === undefined) {
        if (!this.#connection.isRead) break;
        this.#hasEnded = true;
        this.push(null);
      } else {
        this.#isWanted = this.push(bytes);
      }
    }
    this.#isDelivering = false;
  }

  #send(now: number): void {
    const connection = this.#connection;
    for (let next = connection.nextDatagram(now); next !== undefined; next = connection.nextDatagram(now)) {
      this.#carrier.send(next);
    }
  }

  #tell(): void {
    const connection = this.#connection;
    const { state, reason } = connection;
    if (state === "broken") this.destroy(new Error(reason));
    // Both sides had their time; who would end only now is not waited for.
    else if (state !== "open" && !connection.hasArrived) this.destroy();
    if ((state === "broken" || state === "gone") && !this.#isGone) {
      this.#isGone = true;
      this.#carrier.gone();
    }
    const { held, isDone } = connection.outgoing;
    if (this.#written !== undefined && held <= MAX_HELD) {
      const written = this.#written;
      this.#written = undefined;
      this.#writtenBytes = 0;
      written();
    }
    if (this.#finished !== undefined && isDone) {
      const finished = this.#finished;
      this.#finished = undefined;
      finished();
    }
  }

  #schedule(now: number): void {
    const { wakeAt } = this.#connection;
    // A timer that comes earlier looks again.
    if (wakeAt >= this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = wakeAt;
    // Datagrams that came while this process was busy are heard before anything counts as late.
    const timer = setTimeout(
      () => setImmediate(guarded("a connection", () => this.#wake())),
      Math.max(Math.ceil(wakeAt - now), 0),
    );
    unref(timer);
    this.#timer = timer;
  }

  #wake(): void {
    this.#timerAt = Number.POSITIVE_INFINITY;
    this.#connection.wait(performance.now());
    this.#go();
  }
}
