import { Incoming } from "./incoming.ts";
import { Outgoing } from "./outgoing.ts";
import { type Id, type Packet, writeDatagram } from "./packet.ts";

/** A connection whose own end was acknowledged waits for the peer's for so long. */
const END_MS = 2_000;
/** One that is over acknowledges what comes again for so long: its last acknowledgement may have been lost. */
const LINGER_MS = 2_000;

/** The numbers of a connection. */
export interface ConnectionIds {
  /** The one that this side chose. */
  readonly own: Id;
  /** The one that the peer chose. */
  readonly peer: Id;
}

/**
 * `open`; `over`: all is said, and what comes again is acknowledged; `gone`: over, and nobody answers any more;
 * `broken`: gone before it was over.
 */
export type ConnectionState = "open" | "over" | "gone" | "broken";

/** A connection without its socket: packets in, datagrams out. Times are in milliseconds of any clock that never goes back. */
export class Connection {
  readonly #ids: ConnectionIds;
  readonly #outgoing: Outgoing = new Outgoing();
  readonly #incoming: Incoming = new Incoming();
  #state: ConnectionState = "open";
  #reason = "";
  /** When the own end was acknowledged. */
  #doneAt = Number.POSITIVE_INFINITY;
  #overAt = Number.POSITIVE_INFINITY;
  /** Whether the network said that nobody listens there, and the peer nothing since. */
  #isRefused = false;
  /** Tells the peer of a connection that was broken off. */
  #farewell: Uint8Array<ArrayBuffer> | undefined;

  constructor(ids: ConnectionIds) {
    this.#ids = ids;
  }

  /** How it is. */
  get state(): ConnectionState {
    return this.#state;
  }

  /** Why it is broken. */
  get reason(): string {
    return this.#reason;
  }

  /** The sending half, to be looked at. */
  get outgoing(): Pick<Outgoing, "held" | "underWay" | "congestionWindow" | "roundTrip" | "isDone"> {
    return this.#outgoing;
  }

  /** Whether the peer's stream has ended and all of it was read. */
  get isRead(): boolean {
    return this.#incoming.isRead;
  }

  /** Whether all of the peer's stream arrived and the peer was told so. */
  get hasArrived(): boolean {
    return this.#incoming.isEndTold;
  }

  /** When `wait` has something to do; infinite when nothing is waited for. */
  get wakeAt(): number {
    if (this.#isClosed) return Number.POSITIVE_INFINITY;
    const overAt = this.#state === "open" ? this.#doneAt + END_MS : this.#overAt + LINGER_MS;
    return Math.min(this.#outgoing.wakeAt, this.#incoming.dueAt, overAt);
  }

  /** Sends bytes, which nobody may change any more. */
  write(bytes: Uint8Array): void {
    this.#outgoing.write(bytes);
  }

  /** Ends the own stream. */
  end(): void {
    this.#outgoing.end();
  }

  /** The next bytes of the peer's stream. What is not read shrinks the peer's window. */
  read(now: number): Uint8Array | undefined {
    return this.#incoming.read(now);
  }

  /** A packet with the own number came from the peer's address. */
  received(packet: Packet, now: number): void {
    if (this.#isClosed || !this.#outgoing.acknowledged(packet, now)) return;
    this.#isRefused = false;
    this.#incoming.received(packet.offset, packet.bytes, packet.isEnd, now);
    this.#settle(now);
  }

  /** The peer says that it has no connection with this number, which may be that of either side. */
  resetBy(id: Id): void {
    if (id === this.#ids.own || id === this.#ids.peer) this.#break("the peer broke the connection off");
  }

  /** The network says that nobody listens there. Anybody could have said so: it counts when the peer is silent, too. */
  refused(): void {
    this.#isRefused = true;
  }

  /** Breaks the connection off and tells the peer, unless it is over. */
  abort(reason: string): void {
    if (this.#state !== "open") return;
    this.#break(reason);
    this.#farewell = writeDatagram({ kind: "reset", id: this.#ids.own });
  }

  /** Looks at the time: what took too long is lost, over or gone. */
  wait(now: number): void {
    if (this.#isClosed) return;
    const waited = this.#outgoing.wait(now);
    if (waited === "the peer is gone") return this.abort("the peer acknowledges nothing");
    if (waited === "all is lost" && this.#isRefused) return this.abort("nobody listens there any more");
    this.#settle(now);
    if (this.#state === "over" && now >= this.#overAt + LINGER_MS) this.#state = "gone";
  }

  /** The next datagram that is to be sent now; it counts as sent. */
  nextDatagram(now: number): Uint8Array<ArrayBuffer> | undefined {
    if (this.#isClosed) return this.#sayFarewell();
    const piece = this.#outgoing.take(now);
    if (piece === undefined && now < this.#incoming.dueAt) return undefined;
    const { acknowledged, window, ranges } = this.#incoming;
    const { offset, bytes, isEnd } = piece ?? { offset: this.#outgoing.next, bytes: NO_BYTES, isEnd: false };
    const id = this.#ids.peer;
    const packet: Packet = { kind: "packet", id, isEnd, acknowledged, window, ranges, offset, bytes };
    const datagram = writeDatagram(packet);
    this.#incoming.told();
    this.#settle(now);
    return datagram;
  }

  #sayFarewell(): Uint8Array<ArrayBuffer> | undefined {
    const farewell = this.#farewell;
    this.#farewell = undefined;
    return farewell;
  }

  get #isClosed(): boolean {
    return this.#state === "gone" || this.#state === "broken";
  }

  #break(reason: string): void {
    if (this.#isClosed) return;
    // Of a connection that is over nothing is missing.
    this.#state = this.#state === "open" ? "broken" : "gone";
    this.#reason = reason;
  }

  #settle(now: number): void {
    if (this.#state !== "open" || !this.#outgoing.isDone) return;
    this.#doneAt = Math.min(this.#doneAt, now);
    if (!this.#incoming.isEndTold && now < this.#doneAt + END_MS) return;
    this.#state = "over";
    this.#overAt = now;
  }
}

const NO_BYTES: Uint8Array = new Uint8Array();
