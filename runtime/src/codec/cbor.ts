import { FIRST_CAPACITY, fromUtf8, grown, malformed, Reader, utf8 } from "./field.ts";

// Deterministic CBOR (RFC 8949, section 4.2.1): unsigned integers, byte strings, text, arrays, maps, booleans and
// null, of definite length and in their shortest form. Every other encoding is refused: a value has exactly one.

const UINT = 0;
const BYTES = 2;
const TEXT = 3;
const ARRAY = 4;
const MAP = 5;
const SIMPLE = 7;
const FALSE = 0xf4;
const TRUE = 0xf5;
const NULL = 0xf6;
/** The bits of a first byte that hold a value below 24, or how long the value is that follows. */
const SMALL = 0x1f;
const FIRST_LONG = 24;
const END_OF_64_BITS = 2n ** 64n;

/** Longest head: the first byte and an integer of 64 bits. */
const MAX_HEAD = 9;

/** Appends values to a buffer. */
export class CborEncoder {
  #bytes: Uint8Array<ArrayBuffer> = new Uint8Array(FIRST_CAPACITY);
  #length = 0;

  /** Appends an unsigned integer; beyond 2^53 - 1 it has to be a `bigint`. */
  uint(value: number | bigint): this {
    const isWhole = typeof value === "bigint" || Number.isSafeInteger(value);
    if (!isWhole || value < 0 || value >= END_OF_64_BITS) throw malformed("an integer outside 64 bits");
    return this.#head(UINT, value);
  }

  /** Appends a byte string. */
  bytes(value: Uint8Array): this {
    return this.#string(BYTES, value);
  }

  /** Appends a text string. */
  text(value: string): this {
    return this.#string(TEXT, utf8(value));
  }

  /** Appends the head of an array; `length` values follow. */
  array(length: number): this {
    return this.#head(ARRAY, length);
  }

  /** Appends the head of a map; `length` pairs follow, in the order of their encoded keys. */
  map(length: number): this {
    return this.#head(MAP, length);
  }

  /** Appends an array of texts. */
  texts(values: readonly string[]): this {
    this.array(values.length);
    for (const value of values) this.text(value);
    return this;
  }

  /** Appends a boolean. */
  bool(value: boolean): this {
    return this.#head(SIMPLE, value ? TRUE & SMALL : FALSE & SMALL);
  }

  /** Appends null. */
  null(): this {
    return this.#head(SIMPLE, NULL & SMALL);
  }

  /** What was encoded, as bytes of their own. No copy is left here: it may be secret. */
  finish(): Uint8Array<ArrayBuffer> {
    const whole = this.#bytes.slice(0, this.#length);
    this.#bytes.fill(0);
    this.#length = 0;
    return whole;
  }

  #string(major: number, value: Uint8Array): this {
    this.#head(major, value.length);
    this.#reserve(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
    return this;
  }

  #head(major: number, value: number | bigint): this {
    this.#reserve(MAX_HEAD);
    const bytes = this.#bytes;
    const top = major << 5;
    if (value < FIRST_LONG) {
      bytes[this.#length++] = top | Number(value);
      return this;
    }
    const log = value < 2 ** 8 ? 0 : value < 2 ** 16 ? 1 : value < 2 ** 32 ? 2 : 3;
    const width = 1 << log;
    bytes[this.#length] = top | (FIRST_LONG + log);
    let rest = BigInt(value);
    for (let at = this.#length + width; at > this.#length; at--) {
      bytes[at] = Number(rest & 0xffn);
      rest >>= 8n;
    }
    this.#length += 1 + width;
    return this;
  }

  #reserve(length: number): void {
    const needed = this.#length + length;
    if (needed <= this.#bytes.length) return;
    const outgrown = this.#bytes;
    this.#bytes = grown(outgrown, needed);
    outgrown.fill(0);
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
    const info = first & SMALL;
    if (info < FIRST_LONG) return BigInt(info);
    if (info > FIRST_LONG + 3) throw malformed("an indefinite length");
    const width = 1 << (info - FIRST_LONG);
    let value = 0n;
    for (const byte of this.#reader.take(width)) value = (value << 8n) | BigInt(byte);
    const least = width === 1 ? BigInt(FIRST_LONG) : 1n << BigInt(width * 4);
    if (value < least) throw malformed("an integer in a longer form");
    return value;
  }
}
