import { fromUtf8, malformed, Reader, utf8, Writer } from "./field.ts";

// Deterministic CBOR (RFC 8949, section 4.2.1): unsigned integers, byte strings, text, arrays, maps, booleans and
// null, of definite length and in their shortest form. Every other encoding is refused: a value has exactly one.

const UINT = 0;
const BYTES = 2;
const TEXT = 3;
const ARRAY = 4;
const MAP = 5;
const FALSE = 0xf4;
const TRUE = 0xf5;
const NULL = 0xf6;

/** Appends values to a buffer. */
export class CborEncoder {
  readonly #writer: Writer = new Writer();

  /** Appends an unsigned integer. */
  uint(value: number | bigint): this {
    return this.#head(UINT, BigInt(value));
  }

  /** Appends a byte string. */
  bytes(value: Uint8Array): this {
    this.#head(BYTES, BigInt(value.length));
    this.#writer.raw(value);
    return this;
  }

  /** Appends a text string. */
  text(value: string): this {
    const encoded = utf8(value);
    this.#head(TEXT, BigInt(encoded.length));
    this.#writer.raw(encoded);
    return this;
  }

  /** Appends the head of an array; `length` values follow. */
  array(length: number): this {
    return this.#head(ARRAY, BigInt(length));
  }

  /** Appends the head of a map; `length` pairs follow, in the order of their encoded keys. */
  map(length: number): this {
    return this.#head(MAP, BigInt(length));
  }

  /** Appends an array of texts. */
  texts(values: readonly string[]): this {
    this.array(values.length);
    for (const value of values) this.text(value);
    return this;
  }

  /** Appends a boolean. */
  bool(value: boolean): this {
    this.#writer.u8(value ? TRUE : FALSE);
    return this;
  }

  /** Appends null. */
  null(): this {
    this.#writer.u8(NULL);
    return this;
  }

  /** What was encoded, as bytes of their own. */
  finish(): Uint8Array<ArrayBuffer> {
    return this.#writer.copy();
  }

  #head(major: number, value: bigint): this {
    const writer = this.#writer;
    const top = major << 5;
    const small = Number(value);
    if (value < 0n || value >= 2n ** 64n) throw malformed("an integer outside 64 bits");
    if (value < 24n) writer.u8(top | small);
    else if (value < 2n ** 8n) writer.u8(top | 24).u8(small);
    else if (value < 2n ** 16n) writer.u8(top | 25).u16(((small & 0xff) << 8) | (small >> 8));
    else if (value < 2n ** 32n) writer.u8(top | 26).raw(bigEndian(value, 4));
    else writer.u8(top | 27).raw(bigEndian(value, 8));
    return this;
  }
}

/** Reads values; every length is checked against the bytes that are there. */
export class CborDecoder {
  readonly #reader: Reader;

  constructor(bytes: Uint8Array) {
    this.#reader = new Reader(bytes);
  }

  /** Reads an unsigned integer of at most `max`, which is at most 2^53 - 1. */
  uint(max: number = Number.MAX_SAFE_INTEGER): number {
    const value = this.uint64();
    if (value > BigInt(max)) throw malformed("an integer beyond its limit");
    return Number(value);
  }

  /** Reads an unsigned integer of up to 64 bits. */
  uint64(): bigint {
    return this.#head(UINT);
  }

  /** Reads a byte string of at most `max` bytes, as a view. */
  bytes(max: number): Uint8Array {
    return this.#reader.take(this.#length(BYTES, max));
  }

  /** Reads a byte string of exactly `length` bytes, as a view. */
  fixed(length: number): Uint8Array {
    const bytes = this.bytes(length);
    if (bytes.length !== length) throw malformed("a byte string of another length");
    return bytes;
  }

  /** Reads a text string of at most `max` bytes. */
  text(max: number): string {
    return fromUtf8(this.#reader.take(this.#length(TEXT, max)));
  }

  /** Reads the head of an array of at most `max` values. */
  array(max: number): number {
    return this.#length(ARRAY, max);
  }

  /** Reads the head of an array of exactly `length` values. */
  arrayOf(length: number): void {
    if (this.array(length) !== length) throw malformed("an array of another length");
  }

  /** Reads the head of a map of at most `max` pairs; the caller checks the order of the keys. */
  map(max: number): number {
    return this.#length(MAP, max);
  }

  /** Reads an array of at most `max` values, each by `read`. */
  list<T>(max: number, read: (decoder: this) => T): T[] {
    const length = this.array(max);
    const values: T[] = [];
    for (let index = 0; index < length; index++) values.push(read(this));
    return values;
  }

  /** Reads a boolean. */
  bool(): boolean {
    const byte = this.#reader.u8();
    if (byte !== TRUE && byte !== FALSE) throw malformed("a boolean");
    return byte === TRUE;
  }

  /** Reads null if it is the next value, and says whether it was. */
  null(): boolean {
    const isNull = this.#reader.peek() === NULL;
    if (isNull) this.#reader.u8();
    return isNull;
  }

  /** Ends the reading; bytes that are left are an error. */
  finish(): void {
    this.#reader.finish();
  }

  #length(major: number, max: number): number {
    const length = this.#head(major);
    if (length > BigInt(max)) throw malformed("a length beyond its limit");
    return Number(length);
  }

  #head(major: number): bigint {
    const first = this.#reader.u8();
    if (first >> 5 !== major) throw malformed("a value of another type");
    const info = first & 0x1f;
    if (info < 24) return BigInt(info);
    if (info > 27) throw malformed("an indefinite length");
    const width = 1 << (info - 24);
    let value = 0n;
    for (const byte of this.#reader.take(width)) value = (value << 8n) | BigInt(byte);
    const least = width === 1 ? 24n : 1n << BigInt(width * 4);
    if (value < least) throw malformed("an integer in a longer form");
    return value;
  }
}

function bigEndian(value: bigint, width: 4 | 8): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, value);
  return bytes.subarray(8 - width);
}
