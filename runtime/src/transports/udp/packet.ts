/** Longest datagram, in bytes: what passes every path of IPv6 (RFC 8200, section 5) with its headers. */
export const MAX_DATAGRAM = 1200;
/** Most ranges in one packet. */
export const MAX_RANGES = 8;
/** Most bytes of a stream that wait for their reader or for those before them: 80 Mbit/s at a round trip of 0.1 s. */
export const MAX_WINDOW: number = 1024 * 1024;
/** Bytes of a packet beside its ranges and those of the stream. */
const HEADER = 31;
/** Bytes of a range. */
const RANGE = 8;
/** Most bytes of the stream in one packet, however many ranges are in it. */
export const MAX_SEGMENT: number = MAX_DATAGRAM - HEADER - MAX_RANGES * RANGE;
/** Offsets are below: sums with lengths stay exact as numbers. No stream gets that far. */
const MAX_OFFSET = 2 ** 52;
/** Bytes of a cookie. */
export const COOKIE_LENGTH = 16;

// Kinds of datagrams, apart from those of STUN, DTLS, TURN and RTP, so that all can share a port (RFC 7983).
const OPEN = 0x50;
const RETRY = 0x51;
const ACCEPT = 0x52;
const PACKET = 0x53;
const RESET = 0x54;
/** Flag of a packet behind which the stream ends. */
const ENDS = 1;
/** Bytes of a kind and an id, with which every datagram begins. */
const ID_END = 9;

/** Number of a connection, 64 bits that the side which receives it has chosen at random. */
export type Id = bigint;

/** Offsets of a stream, from the first to the one behind the last. */
export interface Span {
  /** The first offset. */
  readonly from: number;
  /** The offset behind the last. */
  readonly to: number;
}

/** Bytes of a stream, and what of the other one has arrived. */
export interface Packet {
  readonly kind: "packet";
  /** The receiver's number of the connection. */
  readonly id: Id;
  /** Whether the stream ends behind the bytes. */
  readonly isEnd: boolean;
  /** Below it everything arrived. */
  readonly acknowledged: number;
  /** How many bytes beyond it may come. */
  readonly window: number;
  /** What arrived beyond it, at most 8, ascending, without touching each other. */
  readonly ranges: readonly Span[];
  /** Bytes of the stream before these. */
  readonly offset: number;
  /** Bytes of the stream. */
  readonly bytes: Uint8Array;
}

/** What one datagram says. */
export type Datagram =
  | { readonly kind: "open"; readonly id: Id; readonly cookie: Uint8Array }
  | { readonly kind: "retry"; readonly id: Id; readonly cookie: Uint8Array }
  | { readonly kind: "accept"; readonly id: Id; readonly accepting: Id }
  | { readonly kind: "reset"; readonly id: Id }
  | Packet;

const NO_RANGES: readonly Span[] = [];

/** Reads a datagram; `undefined` when it is none. Its bytes stay where they are. */
export function parseDatagram(datagram: Uint8Array): Datagram | undefined {
  const { length } = datagram;
  if (length < ID_END || length > MAX_DATAGRAM) return undefined;
  const view = new DataView(datagram.buffer, datagram.byteOffset, length);
  const id = view.getBigUint64(1, true);
  const cookieEnd = ID_END + COOKIE_LENGTH;
  switch (datagram[0]) {
    case OPEN:
      if (length !== MAX_DATAGRAM) return undefined;
      return { kind: "open", id, cookie: datagram.subarray(ID_END, cookieEnd) };
    case RETRY:
      if (length !== cookieEnd) return undefined;
      return { kind: "retry", id, cookie: datagram.subarray(ID_END, cookieEnd) };
    case ACCEPT:
      if (length !== ID_END + 8) return undefined;
      return { kind: "accept", id, accepting: view.getBigUint64(ID_END, true) };
    case PACKET:
      return parsePacket(datagram, view, id);
    case RESET:
      return length === ID_END ? { kind: "reset", id } : undefined;
    default:
      return undefined;
  }
}

function parsePacket(datagram: Uint8Array, view: DataView, id: Id): Packet | undefined {
  if (datagram.length < HEADER) return undefined;
  const flags = view.getUint8(9);
  const acknowledged = offsetAt(view, 10);
  const window = view.getUint32(18, true);
  const count = view.getUint8(22);
  if ((flags & ~ENDS) !== 0 || acknowledged === undefined || count > MAX_RANGES) return undefined;
  if (datagram.length < HEADER + count * RANGE) return undefined;
  const ranges = count === 0 ? NO_RANGES : parseRanges(view, count, acknowledged);
  const offset = offsetAt(view, 23 + count * RANGE);
  if (ranges === undefined || offset === undefined) return undefined;
  const bytes = datagram.subarray(HEADER + count * RANGE);
  return { kind: "packet", id, isEnd: flags === ENDS, acknowledged, window, ranges, offset, bytes };
}

function parseRanges(view: DataView, count: number, acknowledged: number): Span[] | undefined {
  const ranges: Span[] = [];
  // What touches what is before it would have been one with it.
  let least = 1;
  for (let index = 0; index < count; index++) {
    const from = view.getUint32(23 + index * RANGE, true);
    const to = view.getUint32(27 + index * RANGE, true);
    if (from < least || to <= from) return undefined;
    ranges.push({ from: acknowledged + from, to: acknowledged + to });
    least = to + 1;
  }
  return ranges;
}

function offsetAt(view: DataView, at: number): number | undefined {
  const offset = view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
  return offset < MAX_OFFSET ? offset : undefined;
}

/** The bytes of a datagram. */
export function writeDatagram(datagram: Datagram): Uint8Array<ArrayBuffer> {
  switch (datagram.kind) {
    case "open":
      return withCookie(OPEN, datagram, MAX_DATAGRAM);
    case "retry":
      return withCookie(RETRY, datagram, ID_END + COOKIE_LENGTH);
    case "accept": {
      const { bytes, view } = begin(ACCEPT, datagram.id, ID_END + 8);
      view.setBigUint64(ID_END, datagram.accepting, true);
      return bytes;
    }
    case "packet":
      return writePacket(datagram);
    case "reset":
      return begin(RESET, datagram.id, ID_END).bytes;
  }
}

function begin(
  kind: number,
  id: Id,
  length: number,
): { readonly bytes: Uint8Array<ArrayBuffer>; readonly view: DataView } {
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  bytes[0] = kind;
  view.setBigUint64(1, id, true);
  return { bytes, view };
}

function withCookie(
  kind: number,
  { id, cookie }: { readonly id: Id; readonly cookie: Uint8Array },
  length: number,
): Uint8Array<ArrayBuffer> {
  const { bytes } = begin(kind, id, length);
  bytes.set(cookie, ID_END);
  return bytes;
}

function writePacket(packet: Packet): Uint8Array<ArrayBuffer> {
  const { acknowledged, ranges } = packet;
  const behind = HEADER + ranges.length * RANGE;
  const { bytes, view } = begin(PACKET, packet.id, behind + packet.bytes.length);
  bytes[9] = packet.isEnd ? ENDS : 0;
  setOffset(view, 10, acknowledged);
  view.setUint32(18, packet.window, true);
  bytes[22] = ranges.length;
  let at = 23;
  for (const { from, to } of ranges) {
    view.setUint32(at, from - acknowledged, true);
    view.setUint32(at + 4, to - acknowledged, true);
    at += RANGE;
  }
  setOffset(view, at, packet.offset);
  bytes.set(packet.bytes, behind);
  return bytes;
}

function setOffset(view: DataView, at: number, offset: number): void {
  view.setUint32(at, offset % 2 ** 32, true);
  view.setUint32(at + 4, Math.floor(offset / 2 ** 32), true);
}
