import { fromUtf8, utf8 } from "../codec/field.ts";
import { NO_CODE } from "./connection.ts";

/** Largest message that is taken, in bytes: a Durable Object has 128 MB for all that it does. */
export const MAX_MESSAGE: number = 16 * 1024 * 1024;
/** Longest payload of a control frame (RFC 6455, 5.5). */
const MAX_CONTROL = 125;
/** Longest header: 2 bytes, 8 of length, 4 of mask. */
const MAX_HEADER = 14;
/** A buffer for a message of several pieces starts with this size. */
const FIRST_BUFFER = 4 * 1024;

/** What a frame holds (RFC 6455, 5.2). */
export const OPCODES = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** What arrived. */
export type FrameEvent =
  | { readonly type: "text"; readonly data: string }
  | { readonly type: "binary"; readonly data: Uint8Array<ArrayBuffer> }
  | { readonly type: "ping"; readonly data: Uint8Array<ArrayBuffer> }
  | { readonly type: "close"; readonly code: number; readonly reason: string };

/** Bytes that are no frames, or too large. */
export class FrameError extends Error {
  /** The close code that tells the other side. */
  readonly code: 1002 | 1007 | 1009;

  constructor(code: FrameError["code"], message: string) {
    super(message);
    this.name = "FrameError";
    this.code = code;
  }
}

interface Frame {
  readonly isLast: boolean;
  readonly opcode: number;
  readonly length: number;
  readonly mask: Uint8Array | undefined;
  /** Bytes of the payload that have arrived. */
  taken: number;
}

/** Bytes that are collected piece by piece. */
class Collector {
  #buffer: Uint8Array<ArrayBuffer> = new Uint8Array();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Room for `length` more bytes, for the caller to fill. Memory follows what arrives, not what is announced. */
  extend(length: number): Uint8Array {
    const needed = this.#length + length;
    if (needed > this.#buffer.length) {
      const grown = new Uint8Array(this.#length === 0 ? needed : Math.max(needed * 2, FIRST_BUFFER));
      grown.set(this.#buffer.subarray(0, this.#length));
      this.#buffer = grown;
    }
    const room = this.#buffer.subarray(this.#length, needed);
    this.#length = needed;
    return room;
  }

  /** All bytes; the collector is empty then. */
  take(): Uint8Array<ArrayBuffer> {
    const bytes = this.#buffer.length === this.#length ? this.#buffer : this.#buffer.slice(0, this.#length);
    this.#buffer = new Uint8Array();
    this.#length = 0;
    return bytes;
  }
}

/** Takes a direction's bytes apart, wherever they were cut. */
export class FrameDecoder {
  readonly #isMasked: boolean;
  readonly #header: Uint8Array = new Uint8Array(MAX_HEADER);
  #headerLength = 0;
  #frame: Frame | undefined;
  /** Opcode of the message that is not whole yet. */
  #message: number | undefined;
  readonly #data: Collector = new Collector();
  readonly #control: Collector = new Collector();
  #isClosed = false;

  /** `isMasked` says whether the other side masks its frames: a caller does, a service does not. */
  constructor(isMasked: boolean) {
    this.#isMasked = isMasked;
  }

  /** Takes bytes and yields what they complete. Nothing is taken after a close frame. Throws a `FrameError`. */
  *push(bytes: Uint8Array): Generator<FrameEvent, void> {
    let at = 0;
    while (!this.#isClosed) {
      if (this.#frame === undefined) {
        const wanted = this.#headerSize() - this.#headerLength;
        const part = bytes.subarray(at, at + wanted);
        this.#header.set(part, this.#headerLength);
        this.#headerLength += part.length;
        at += part.length;
        if (part.length < wanted) return;
        if (this.#headerLength < this.#headerSize()) continue;
        this.#frame = this.#readHeader();
        this.#headerLength = 0;
      }
      const frame = this.#frame;
      const part = bytes.subarray(at, at + frame.length - frame.taken);
      this.#collect(frame, part);
      at += part.length;
      if (frame.taken < frame.length) return;
      this.#frame = undefined;
      const event = this.#finish(frame);
      if (event !== undefined) yield event;
    }
  }

  /** How many bytes the header has, as far as is known. */
  #headerSize(): number {
    if (this.#headerLength < 2) return 2;
    const [, second = 0] = this.#header;
    const short = second & 0x7f;
    const extended = short === 126 ? 2 : short === 127 ? 8 : 0;
    return 2 + extended + (second >= 0x80 ? 4 : 0);
  }

  #readHeader(): Frame {
    const [first = 0, second = 0] = this.#header;
    const opcode = first & 0x0f;
    const isLast = first >= 0x80;
    if ((first & 0x70) !== 0) throw new FrameError(1002, "a reserved bit is set");
    if (second >= 0x80 !== this.#isMasked) {
      throw new FrameError(1002, this.#isMasked ? "a frame is not masked" : "a frame is masked");
    }
    const { length, size } = this.#readLength(second & 0x7f);
    if (opcode >= OPCODES.close) this.#checkControl(opcode, isLast, length);
    else this.#checkData(opcode, length);
    const mask = this.#isMasked ? this.#header.slice(size, size + 4) : undefined;
    return { isLast, opcode, length, mask, taken: 0 };
  }

  /** The length of the payload, which must take as few bytes as it can (RFC 6455, 5.2), and where what follows it begins. */
  #readLength(short: number): { length: number; size: number } {
    const view = new DataView(this.#header.buffer);
    if (short < 126) return { length: short, size: 2 };
    const isLong = short === 127;
    const length = isLong ? Number(view.getBigUint64(2)) : view.getUint16(2);
    if (length < (isLong ? 0x1_0000 : 126))
      throw new FrameError(1002, "a length takes more bytes than it needs");
    return { length, size: isLong ? 10 : 4 };
  }

  #checkControl(opcode: number, isLast: boolean, length: number): void {
    if (opcode > OPCODES.pong) throw new FrameError(1002, `opcode ${opcode} is not known`);
    if (!isLast) throw new FrameError(1002, "a control frame is fragmented");
    if (length > MAX_CONTROL)
      throw new FrameError(1002, `a control frame has more than ${MAX_CONTROL} bytes`);
  }

  #checkData(opcode: number, length: number): void {
    if (opcode > OPCODES.binary) throw new FrameError(1002, `opcode ${opcode} is not known`);
    const isContinuation = opcode === OPCODES.continuation;
    if (isContinuation !== (this.#message !== undefined)) {
      throw new FrameError(
        1002,
        isContinuation ? "there is no message to continue" : "a message is not whole",
      );
    }
    if (this.#data.length + length > MAX_MESSAGE) {
      throw new FrameError(1009, `a message has more than ${MAX_MESSAGE} bytes`);
    }
    if (!isContinuation) this.#message = opcode;
  }

  #collect(frame: Frame, part: Uint8Array): void {
    if (part.length === 0) return;
    const collector = frame.opcode >= OPCODES.close ? this.#control : this.#data;
    const room = collector.extend(part.length);
    if (frame.mask === undefined) room.set(part);
    else applyMask(part, room, frame.mask, frame.taken);
    frame.taken += part.length;
  }

  #finish({ isLast, opcode }: Frame): FrameEvent | undefined {
    if (opcode === OPCODES.close) return this.#close(this.#control.take());
    if (opcode >= OPCODES.close) {
      const data = this.#control.take();
      return opcode === OPCODES.ping ? { type: "ping", data } : undefined;
    }
    if (!isLast) return undefined;
    const data = this.#data.take();
    const isText = this.#message === OPCODES.text;
    this.#message = undefined;
    return isText ? { type: "text", data: decodeUtf8(data) } : { type: "binary", data };
  }

  #close(payload: Uint8Array): FrameEvent {
    this.#isClosed = true;
    if (payload.length === 0) return { type: "close", code: NO_CODE, reason: "" };
    if (payload.length === 1) throw new FrameError(1002, "a close code has two bytes");
    const code = new DataView(payload.buffer, payload.byteOffset).getUint16(0);
    if (!mayBeSent(code)) throw new FrameError(1002, `${code} is no close code`);
    return { type: "close", code, reason: decodeUtf8(payload.subarray(2)) };
  }
}

/** Whether a close code may stand in a frame (RFC 6455, 7.4, and the registry of IANA). */
export function mayBeSent(code: number): boolean {
  if (code >= 3000) return code <= 4999;
  return code >= 1000 && code <= 1014 && !(code >= 1004 && code <= 1006);
}

/** Encodes one whole frame, masked if this side is the caller's. */
export function encodeFrame(opcode: number, payload: Uint8Array, isMasked: boolean): Uint8Array<ArrayBuffer> {
  const { length } = payload;
  const extended = length < 126 ? 0 : length < 0x1_0000 ? 2 : 8;
  const start = 2 + extended + (isMasked ? 4 : 0);
  const frame = new Uint8Array(start + length);
  const view = new DataView(frame.buffer);
  frame[0] = 0x80 | opcode;
  frame[1] = (isMasked ? 0x80 : 0) | (extended === 0 ? length : extended === 2 ? 126 : 127);
  if (extended === 2) view.setUint16(2, length);
  if (extended === 8) view.setBigUint64(2, BigInt(length));
  if (!isMasked) frame.set(payload, start);
  else {
    // A mask that nobody can foresee, so that no application chooses the bytes on the wire (RFC 6455, 10.3).
    const mask = crypto.getRandomValues(frame.subarray(start - 4, start));
    applyMask(payload, frame.subarray(start), mask, 0);
  }
  return frame;
}

/** Encodes a close frame; `NO_CODE` is one without a code. */
export function encodeClose(code: number, reason: string, isMasked: boolean): Uint8Array<ArrayBuffer> {
  if (code === NO_CODE) return encodeFrame(OPCODES.close, new Uint8Array(), isMasked);
  const text = utf8(reason);
  const payload = new Uint8Array(2 + text.length);
  new DataView(payload.buffer).setUint16(0, code);
  payload.set(text, 2);
  return encodeFrame(OPCODES.close, payload, isMasked);
}

/** Writes `from`, which stands `offset` bytes into its payload, masked or unmasked to `to`. */
function applyMask(from: Uint8Array, to: Uint8Array, mask: Uint8Array, offset: number): void {
  for (let index = 0; index < from.length; index++) {
    to[index] = (from[index] ?? 0) ^ (mask[(offset + index) & 3] ?? 0);
  }
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return fromUtf8(bytes);
  } catch {
    throw new FrameError(1007, "a text is no UTF-8");
  }
}
