import { ByteQueue } from "./bytes.ts";
import { Congestion } from "./congestion.ts";
import { Deque } from "./deque.ts";
import { MAX_SEGMENT, MAX_WINDOW, type Packet } from "./packet.ts";
import { MAX_TIMEOUT_MS, RoundTrip } from "./round-trip.ts";
import { Spans } from "./spans.ts";

/** What was sent so many transmissions before something that arrived is lost. */
const REORDERING = 3;
/** A peer that acknowledges nothing for so long is gone. */
const PATIENCE_MS = 30_000;
/** Most spans that are remembered of what arrived beyond a gap: those of a window of which every other segment is lost. */
const MAX_SPANS = 512;
/** Most segments that are sent and not acknowledged: a window of whole ones. Tiny ones would cost more than they hold. */
const MAX_SEGMENTS = 1024;

/** Where a segment is: on its way, to be sent again, or with the peer. */
type State = "under way" | "lost" | "arrived";

/** A piece of the stream that was sent and is not acknowledged together with all before it. */
class Segment {
  /** Its first offset; the end of the stream counts as a byte. */
  from: number;
  /** The offset behind it. */
  readonly to: number;
  state: State = "under way";
  /** Number of its last transmission, and when that was. */
  transmission = 0;
  sentAt = 0;
  /** How often it was sent. */
  times = 0;

  constructor(from: number, to: number) {
    this.from = from;
    this.to = to;
  }

  get size(): number {
    return this.to - this.from;
  }
}

/** What goes into one packet. */
export interface Piece {
  /** Bytes of the stream before these. */
  readonly offset: number;
  /** Bytes of the stream. */
  readonly bytes: Uint8Array;
  /** Whether the stream ends behind them. */
  readonly isEnd: boolean;
}

/** What the passing of time did to the sending half. */
export type Waited = "nothing" | "all is lost" | "the peer is gone";

/** The sending half of a connection: what to send when, and what was lost. Times are in milliseconds. */
export class Outgoing {
  readonly #queue: ByteQueue = new ByteQueue();
  #hasEnd = false;
  /** By their offsets, from the first that is not acknowledged together with all before it. */
  readonly #segments: Deque<Segment> = new Deque();
  /** What is under way, by transmission, and among it what has arrived meanwhile. */
  readonly #sent: Deque<Segment> = new Deque();
  /** To be sent again, and among it what has arrived meanwhile. */
  readonly #lost: Deque<Segment> = new Deque();
  /** What arrived beyond a gap. */
  readonly #told: Spans = new Spans(MAX_SPANS);
  readonly #roundTrip: RoundTrip = new RoundTrip();
  readonly #congestion: Congestion = new Congestion();
  /** Offset of what is sent next for the first time. */
  #next = 0;
  /** Where the peer's room ends. Until it says so, the congestion window keeps far below what it begins with. */
  #edge = MAX_WINDOW;
  /** What was sent beyond the peer's room to ask after it. */
  #probe: Segment | undefined;
  /** How many bytes are under way. */
  #underWay = 0;
  #transmissions = 0;
  /** The last transmission that is known to have arrived. */
  #newest = -1;
  /** How often in a row nothing was acknowledged in time. */
  #timeouts = 0;
  /** Whether something was sent again to hear what arrived, and nothing was acknowledged since. */
  #hasAsked = false;
  #timerFrom = 0;
  /** When something was acknowledged last, or began to wait for that. */
  #progressAt = 0;

  /** How many bytes are kept: those that were not sent and those that were not acknowledged. */
  get held(): number {
    return this.#queue.length;
  }

  /** How many bytes are under way. */
  get underWay(): number {
    return this.#underWay;
  }

  /** How many bytes may be under way as far as the network is concerned. */
  get congestionWindow(): number {
    return this.#congestion.window;
  }

  /** Mean round trip, in milliseconds; 0 before the first was measured. */
  get roundTrip(): number {
    return this.#roundTrip.mean;
  }

  /** Offset of what is sent next for the first time. */
  get next(): number {
    return this.#next;
  }

  /** Whether the peer has everything, the end included. */
  get isDone(): boolean {
    return this.#hasEnd && this.#next > this.#queue.end && this.#segments.length === 0;
  }

  /** When `wait` has something to do; infinite when nothing is waited for. */
  get wakeAt(): number {
    if (this.#segments.length === 0) return Number.POSITIVE_INFINITY;
    const goneAt = this.#progressAt + PATIENCE_MS;
    if (this.#underWay === 0) return goneAt;
    const patience = this.#hasAsked ? this.#timeout : Math.min(this.#timeout, this.#roundTrip.patience);
    return Math.min(goneAt, this.#timerFrom + patience);
  }

  /** Appends bytes, which nobody may change any more. */
  write(bytes: Uint8Array): void {
    this.#queue.push(bytes);
  }

  /** Ends the stream behind what was written. */
  end(): void {
    this.#hasEnd = true;
  }

  /** Takes what a packet says of what arrived; false when it says what nobody could who has the stream. */
  acknowledged({ acknowledged, ranges, window }: Packet, now: number): boolean {
    if ((ranges.at(-1)?.to ?? acknowledged) > this.#next) return false;
    const wasUsed = 2 * this.#underWay >= this.#congestion.window;
    const arrivals = new Arrivals(now);
    this.#acknowledgeBelow(acknowledged, arrivals);
    for (const { from, to } of ranges) this.#acknowledgeRange(from, to, arrivals);
    if (arrivals.bytes > 0) this.#progress(arrivals, wasUsed);
    this.#see(acknowledged + Math.min(window, MAX_WINDOW), now);
    return true;
  }

  /** Looks at the time. What counts as lost is to be sent again. */
  wait(now: number): Waited {
    if (now < this.wakeAt) return "nothing";
    if (now >= this.#progressAt + PATIENCE_MS) return "the peer is gone";
    if (now < this.#timerFrom + this.#timeout) {
      this.#ask(now);
      return "nothing";
    }
    // What the peer has no room for says nothing of the network.
    if (!this.#isProbing) this.#congestion.timedOut(this.#timeouts === 0, this.#transmissions);
    this.#timeouts++;
    this.#loseAll();
    return "all is lost";
  }

  /** What is to be sent now; it counts as sent. */
  take(now: number): Piece | undefined {
    const segment = this.#again() ?? this.#cut(now);
    if (segment === undefined) return undefined;
    if (this.#underWay === 0) this.#timerFrom = now;
    segment.state = "under way";
    segment.transmission = this.#transmissions++;
    segment.sentAt = now;
    segment.times++;
    this.#underWay += segment.size;
    this.#sent.push(segment);
    const { from, to } = segment;
    const isEnd = to > this.#queue.end;
    return { offset: from, bytes: this.#queue.slice(from, isEnd ? to - 1 : to), isEnd };
  }

  /** The time after which what is under way counts as lost. */
  get #timeout(): number {
    return Math.min(this.#roundTrip.timeout * 2 ** this.#timeouts, MAX_TIMEOUT_MS);
  }

  get #isProbing(): boolean {
    return this.#probe?.state === "under way";
  }

  #acknowledgeBelow(offset: number, arrivals: Arrivals): void {
    for (let first = this.#segments.first; first !== undefined; first = this.#segments.first) {
      if (first.to > offset) {
        this.#cutOff(first, offset, arrivals);
        break;
      }
      this.#segments.shift();
      this.#arrive(first, arrivals);
    }
    this.#queue.dropBelow(offset);
    this.#told.dropBelow(offset);
  }

  /** Forgets the part of a segment below an offset: a peer without room for the whole may keep a part. */
  #cutOff(segment: Segment, offset: number, arrivals: Arrivals): void {
    const length = offset - segment.from;
    if (length <= 0) return;
    if (segment.state === "under way") this.#underWay -= length;
    segment.from = offset;
    arrivals.bytes += length;
  }

  #acknowledgeRange(from: number, to: number, arrivals: Arrivals): void {
    // Ranges are told of again and again: only what is new of them is looked at.
    const start = this.#told.endOf(from);
    const first = this.#segments.first;
    if (start >= to || first === undefined || to <= first.from) return;
    const whole = this.#told.add(Math.max(from, first.from), to);
    if (whole === undefined) return;
    let index = this.#segments.search((segment) => segment.to > start);
    let segment = this.#segments.at(index);
    while (segment !== undefined && segment.to <= whole.to) {
      if (segment.from >= whole.from) this.#arrive(segment, arrivals);
      segment = this.#segments.at(++index);
    }
  }

  #arrive(segment: Segment, arrivals: Arrivals): void {
    if (segment.state === "arrived") return;
    if (segment.state === "under way") this.#underWay -= segment.size;
    segment.state = "arrived";
    arrivals.bytes += segment.size;
    const { transmission, times, sentAt } = segment;
    if ((arrivals.last?.transmission ?? -1) < transmission) arrivals.last = segment;
    // When the last transmission was less than a round trip ago, an earlier one arrived.
    const isLast = times === 1 || arrivals.at - sentAt >= this.#roundTrip.least;
    if (isLast) this.#newest = Math.max(this.#newest, transmission);
  }

  #progress({ at, bytes, last }: Arrivals, wasUsed: boolean): void {
    this.#timeouts = 0;
    this.#hasAsked = false;
    this.#timerFrom = at;
    this.#progressAt = at;
    if (last === undefined) return;
    // Of what was sent more than once, it is not known which transmission arrived (Karn's algorithm).
    if (last.times === 1) this.#roundTrip.measured(at - last.sentAt);
    if (wasUsed) this.#congestion.acknowledged(bytes, last.transmission);
    this.#findLosses();
  }

  #findLosses(): void {
    for (let first = this.#sent.first; first !== undefined; first = this.#sent.first) {
      if (first.state === "under way") {
        if (first.transmission + REORDERING > this.#newest) return;
        this.#lose(first);
        this.#congestion.lost(first.transmission, this.#transmissions);
      }
      this.#sent.shift();
    }
  }

  #lose(segment: Segment): void {
    segment.state = "lost";
    this.#underWay -= segment.size;
    this.#lost.push(segment);
  }

  #loseAll(): void {
    for (const segment of this.#sent.drain()) if (segment.state === "under way") this.#lose(segment);
    this.#sortLost();
  }

  /** Has the first of what is under way sent again: its acknowledgement tells what was lost behind it. */
  #ask(now: number): void {
    this.#hasAsked = true;
    // Its acknowledgement is waited for as long as any other.
    this.#timerFrom = now;
    for (let index = 0; index < this.#segments.length; index++) {
      const first = this.#segments.at(index);
      if (first?.state !== "under way") continue;
      for (const segment of this.#sent.drain()) if (segment !== first) this.#sent.push(segment);
      this.#lose(first);
      return this.#sortLost();
    }
  }

  #sortLost(): void {
    const lost = this.#lost.drain().sort((left, right) => left.from - right.from);
    for (const segment of lost) this.#lost.push(segment);
  }

  /** Notes where the peer's room ends. */
  #see(edge: number, now: number): void {
    this.#edge = Math.max(this.#edge, edge);
    const probe = this.#probe;
    if (probe === undefined) return;
    if (this.#edge <= probe.from && probe.state !== "arrived") {
      // It lives, and its reader reads nothing: that may last.
      this.#progressAt = now;
      return;
    }
    this.#probe = undefined;
    this.#timeouts = 0;
    this.#hasAsked = false;
    if (probe.state === "under way") this.#loseAll();
  }

  /** The first of what was lost, if it may be sent. */
  #again(): Segment | undefined {
    for (let first = this.#lost.first; first !== undefined; first = this.#lost.first) {
      if (first.state === "lost") return this.#mayCarry(first.size) ? this.#lost.shift() : undefined;
      this.#lost.shift();
    }
    return undefined;
  }

  /** A new segment of what was not sent yet, if it may be sent. */
  #cut(now: number): Segment | undefined {
    if (this.#lost.length > 0 || this.#segments.length >= MAX_SEGMENTS) return undefined;
    const left = this.#queue.end - this.#next;
    const bytes = Math.min(left, MAX_SEGMENT);
    let size = this.#hasEnd && bytes === left ? bytes + 1 : bytes;
    if (size <= 0 || !this.#mayCarry(size)) return undefined;
    const room = this.#edge - this.#next;
    if (size > room) {
      // Rather than in small pieces, it goes when there is room for all of it or nothing else to wait for.
      if (this.#underWay > 0) return undefined;
      size = Math.min(size, Math.max(room, 1));
    }
    const segment = new Segment(this.#next, this.#next + size);
    if (room <= 0) this.#probe = segment;
    if (this.#segments.length === 0) this.#progressAt = now;
    this.#segments.push(segment);
    this.#next += size;
    return segment;
  }

  #mayCarry(size: number): boolean {
    return this.#underWay === 0 || this.#underWay + size <= this.#congestion.window;
  }
}

/** What one packet says that arrived. */
class Arrivals {
  /** When it came. */
  readonly at: number;
  bytes = 0;
  /** The one that was sent last. */
  last: Segment | undefined;

  constructor(at: number) {
    this.at = at;
  }
}
