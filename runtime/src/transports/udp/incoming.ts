import { MAX_DATAGRAM, MAX_RANGES, MAX_WINDOW, type Span } from "./packet.ts";
import { Ring } from "./ring.ts";
import { Spans } from "./spans.ts";

/** Most spans beyond what is in order: as many as a window of whole segments can have, of which every other is lost. */
const MAX_SPANS = 512;
/** So many packets are acknowledged at once. */
const PACKETS = 2;
/** One that is alone is acknowledged after so long at the latest. */
const DELAY_MS = 25;
/** A window that has grown by so much is told of. */
const GROWTH = MAX_WINDOW / 4;
/** One that had closed has opened when so much is free: not for every byte that is read. */
const OPENED = 2 * MAX_DATAGRAM;

/** The receiving half of a connection: puts bytes into their order and knows what is to be said of them. */
export class Incoming {
  /** Below it everything arrived; the end counts as a byte. */
  #next = 0;
  /** How many bytes were read. */
  #read = 0;
  /** How many bytes the stream has, once that is known. */
  #length: number | undefined;
  /** What arrived beyond what is in order. */
  readonly #ahead: Spans = new Spans(MAX_SPANS);
  readonly #ring: Ring = new Ring();
  /** The first bytes that were not read, as they came: most are read before others come and are never copied. */
  #fresh: Uint8Array | undefined;
  /** Up to where the peer was told that there is room. */
  #told = MAX_WINDOW;
  #isEndTold = false;
  #unacknowledged = 0;
  #dueAt = Number.POSITIVE_INFINITY;

  /** Below it everything arrived; the end counts as a byte. */
  get acknowledged(): number {
    return this.#next;
  }

  /** How many bytes beyond it there is room for. */
  get window(): number {
    return Math.max(this.#read + MAX_WINDOW - this.#next, 0);
  }

  /** What arrived beyond it: when there is too much to tell of, the latest. */
  get ranges(): readonly Span[] {
    return this.#ahead.latest(MAX_RANGES);
  }

  /** When the peer is to be told; infinite when there is nothing to tell. */
  get dueAt(): number {
    return this.#dueAt;
  }

  /** Whether everything was read and nothing follows. */
  get isRead(): boolean {
    return this.#read === this.#length;
  }

  /** Whether everything arrived and the peer was told so. */
  get isEndTold(): boolean {
    return this.#isEndTold;
  }

  /** Takes what a packet carries. What has no room, or contradicts what came before, is left out. */
  received(offset: number, bytes: Uint8Array, isEnd: boolean, now: number): void {
    if (bytes.length === 0 && !isEnd) return;
    const isUsual = this.#take(offset, bytes, isEnd) && !isEnd;
    this.#unacknowledged++;
    // What is told at once of a gap, or of what came twice, lets the sender repair it.
    const isDue = !isUsual || this.#unacknowledged >= PACKETS;
    this.#dueAt = Math.min(this.#dueAt, isDue ? now : now + DELAY_MS);
  }

  /** The next bytes that are in order. */
  read(now: number): Uint8Array | undefined {
    const end = Math.min(this.#next, this.#length ?? this.#next);
    if (this.#read === end) return undefined;
    const bytes = this.#fresh ?? this.#ring.read(this.#read, end);
    this.#fresh = undefined;
    this.#read += bytes.length;
    if (this.#read === end && this.#ahead.size === 0) this.#ring.clear();
    this.#widen(now);
    return bytes;
  }

  /** Notes that the peer is told all this in the packet that is made now. */
  told(): void {
    this.#told = this.#read + MAX_WINDOW;
    this.#isEndTold = this.#hasEnded;
    this.#unacknowledged = 0;
    this.#dueAt = Number.POSITIVE_INFINITY;
  }

  get #hasEnded(): boolean {
    return this.#length !== undefined && this.#next > this.#length;
  }

  /** Whether the packet is the next in order and leaves no gap open. */
  #take(offset: number, bytes: Uint8Array, isEnd: boolean): boolean {
    const stop = offset + bytes.length;
    if (this.#contradicts(stop, isEnd)) return false;
    const to = Math.min(stop, this.#read + MAX_WINDOW);
    const hasEnd = isEnd && to === stop;
    const from = Math.max(offset, this.#next);
    const behind = hasEnd ? to + 1 : to;
    if (behind <= from) return false;
    const hadGap = this.#ahead.size > 0;
    const isNext = from === this.#next;
    // What is next in order has its place however many gaps there are behind it.
    if (!isNext && this.#ahead.add(from, behind) === undefined) return false;
    if (hasEnd) this.#length = stop;
    this.#keep(from, bytes.subarray(from - offset, to - offset));
    if (!isNext) return false;
    this.#next = this.#ahead.endOf(behind);
    this.#ahead.dropBelow(this.#next);
    return !hadGap;
  }

  /** Whether a packet that stops there cannot be of the same stream as those before it. */
  #contradicts(stop: number, isEnd: boolean): boolean {
    if (this.#length !== undefined) return isEnd ? stop !== this.#length : stop > this.#length;
    return isEnd && stop < Math.max(this.#next, this.#ahead.end);
  }

  #keep(offset: number, bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    const base = this.#read;
    if (offset === base) {
      this.#fresh = bytes;
      return;
    }
    if (this.#fresh !== undefined) {
      this.#ring.write(this.#fresh, base, base);
      this.#fresh = undefined;
    }
    this.#ring.write(bytes, offset, base);
  }

  /** Lets the peer know of a window that it may be waiting for. */
  #widen(now: number): void {
    if (this.#hasEnded) return;
    const grown = this.#read + MAX_WINDOW - this.#told;
    const hadClosed = this.#told - this.#next < MAX_DATAGRAM;
    if (grown >= GROWTH || (hadClosed && grown >= OPENED)) this.#dueAt = now;
  }
}
