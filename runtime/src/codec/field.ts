import { MeshError } from "./code.ts";

/** Bytes do not follow the layout that was expected of them. */
export function malformed(what: string): MeshError {
  return new MeshError("BadInput", `${what} does not follow the layout of the boundary`);
}

const decoder = /* @__PURE__ */ new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = /* @__PURE__ */ new TextEncoder();

/** Encodes text as UTF-8. */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Decodes UTF-8, refusing what is none. */
export function fromUtf8(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw malformed("text");
  }
}

/** A cursor over bytes; what it hands out are views, every read is checked. */
export class Reader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Position of the next byte. */
  get at(): number {
    return this.#at;
  }

  /** Whether every byte was read. */
  get isEmpty(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** Takes the next `length` bytes as a view. */
  take(length: number): Uint8Array {
    return this.#bytes.subarray(this.#advance(length), this.#at);
  }

  /** Reads one byte. */
  u8(): number {
    return this.#view.getUint8(this.#advance(1));
  }

  /** Reads a little-endian `u16`. */
  u16(): number {
    return this.#view.getUint16(this.#advance(2), true);
  }

  /** Reads a little-endian `u32`. */
  u32(): number {
    return this.#view.getUint32(this.#advance(4), true);
  }

  /** Reads a little-endian `u64`. */
  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8), true);
  }

  /** Reads bytes after their `u32` length. */
  bytes(): Uint8Array {
    return this.take(this.u32());
  }

  /** Looks at the next byte without taking it. */
  peek(): number | undefined {
    return this.#bytes[this.#at];
  }

  /** Takes every byte that is left, as a view. */
  rest(): Uint8Array {
    return this.take(this.#bytes.length - this.#at);
  }

  /** Ends the reading; bytes that are left are an error. */
  finish(): void {
    if (!this.isEmpty) throw malformed("an item with bytes left over");
  }

  #advance(length: number): number {
    const at = this.#at;
    if (length > this.#bytes.length - at) throw malformed("an item that ends too early");
    this.#at = at + length;
    return at;
  }
}

/** A buffer grows in powers of two from this size: a small message. */
export const FIRST_CAPACITY = 256;

/** A buffer that holds `needed` bytes and begins like this one. */
export function grown(bytes: Uint8Array, needed: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(2 ** Math.ceil(Math.log2(needed)));
  larger.set(bytes);
  return larger;
}

/** Appends fields to a buffer that grows. */
export class Writer {
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;
  #length = 0;

  /** Has room for so many bytes, and takes more when it needs them. */
  constructor(capacity: number = FIRST_CAPACITY) {
    this.#bytes = new Uint8Array(capacity);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** Bytes written so far. */
  get length(): number {
    return this.#length;
  }

  /** What was written, as a view that the next write may invalidate. */
  written(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#length);
  }

  /** What was written, as bytes of their own. */
  copy(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  /** Forgets everything from `length` on; memory beyond `keep` bytes is given back. */
  truncate(length: number, keep: number = Number.POSITIVE_INFINITY): void {
    this.#length = length;
    if (this.#bytes.length <= keep) return;
    this.#bytes = this.#bytes.slice(0, Math.max(length, FIRST_CAPACITY));
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** Appends one byte. */
  u8(value: number): this {
    const at = this.#reserve(1);
    this.#view.setUint8(at, value);
    return this;
  }

  /** Appends a little-endian `u16`. */
  u16(value: number): this {
    const at = this.#reserve(2);
    this.#view.setUint16(at, value, true);
    return this;
  }

  /** Appends a little-endian `u32`. */
  u32(value: number): this {
    const at = this.#reserve(4);
    this.#view.setUint32(at, value, true);
    return this;
  }

  /** Appends a little-endian `u64`. */
  u64(value: bigint): this {
    const at = this.#reserve(8);
    this.#view.setBigUint64(at, value, true);
    return this;
  }

  /** Appends bytes as they are. */
  raw(value: Uint8Array): this {
    // The buffer may be another one after it was made larger.
    const at = this.#reserve(value.length);
    this.#bytes.set(value, at);
    return this;
  }

  /** Appends bytes after their `u32` length. */
  bytes(value: Uint8Array): this {
    return this.u32(value.length).raw(value);
  }

  /** Appends UTF-8 after its `u32` length. */
  text(value: string): this {
    return this.bytes(utf8(value));
  }

  /** Writes the bytes that follow `at` + 4 as their `u32` length at `at`. */
  patchLength(at: number): void {
    this.#view.setUint32(at, this.#length - at - 4, true);
  }

  #reserve(length: number): number {
    const at = this.#length;
    const needed = at + length;
    if (needed > this.#bytes.length) {
      this.#bytes = grown(this.#bytes, needed);
      this.#view = new DataView(this.#bytes.buffer);
    }
    this.#length = needed;
    return at;
  }
}

/** A value with one fixed layout. */
export interface Field<T> {
  /** Reads the value; bytes come as a view. */
  read(reader: Reader): T;
  /** Appends the value. */
  write(writer: Writer, value: T): void;
}

/** One byte. */
export const u8: Field<number> = { read: (r) => r.u8(), write: (w, value) => w.u8(value) };
/** Two bytes, little-endian. */
export const u16: Field<number> = { read: (r) => r.u16(), write: (w, value) => w.u16(value) };
/** Four bytes, little-endian. */
export const u32: Field<number> = { read: (r) => r.u32(), write: (w, value) => w.u32(value) };
/** Bytes after a `u32` length. */
export const bytes: Field<Uint8Array> = { read: (r) => r.bytes(), write: (w, value) => w.bytes(value) };
/** UTF-8 after a `u32` length. */
export const text: Field<string> = {
  read: (r) => fromUtf8(r.bytes()),
  write: (w, value) => w.text(value),
};
/** Exactly so many bytes, without a length. */
export function fixed(length: number): Field<Uint8Array> {
  return {
    read: (r) => r.take(length),
    write: (w, value) => {
      if (value.length !== length) throw malformed(`a field of ${length} bytes`);
      w.raw(value);
    },
  };
}

/** Exactly 32 bytes, without a length. */
export const bytes32: Field<Uint8Array> = /* @__PURE__ */ fixed(32);
/** A flag: one byte, 0 or 1. */
export const flag: Field<boolean> = {
  read: (r) => choice(["0", "1"]).read(r) === "1",
  write: (w, value) => w.u8(value ? 1 : 0),
};

const NEVER = 2n ** 64n - 1n;

/** A time in milliseconds since 1970; `Infinity` stands for the largest number, which is never. */
export const time: Field<number> = {
  read: (r) => {
    const value = r.u64();
    return value === NEVER ? Number.POSITIVE_INFINITY : Number(value);
  },
  write: (w, value) => w.u64(value === Number.POSITIVE_INFINITY ? NEVER : BigInt(Math.trunc(value))),
};

/** A number of things, in eight bytes. */
export const count: Field<number> = {
  read: (r) => Number(r.u64()),
  write: (w, value) => w.u64(BigInt(value)),
};

/** One byte that chooses out of `names`, numbered from `first`. */
export function choice<const T extends string>(names: readonly T[], first = 0): Field<T> {
  return {
    read: (r) => {
      const name = names[r.u8() - first];
      if (name === undefined) throw malformed("a choice");
      return name;
    },
    write: (w, value) => w.u8(names.indexOf(value) + first),
  };
}
