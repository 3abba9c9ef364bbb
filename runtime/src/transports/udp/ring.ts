/** Least and largest room, in bytes, that stays when the ring is empty. */
const MIN_ROOM = 16 * 1024;
const MAX_KEPT = 64 * 1024;
/** Most bytes that are read at once. */
const MAX_READ = 64 * 1024;

/** Bytes of a stream at their offsets, in memory that grows with the distance between the first and the last. */
export class Ring {
  #bytes: Uint8Array = new Uint8Array();
  /** Offset behind the last byte that was written. */
  #top = 0;

  /** Puts bytes at an offset; what lies between `base`, which is not above it, and them is kept. */
  write(bytes: Uint8Array, offset: number, base: number): void {
    const end = offset + bytes.length;
    if (end - base > this.#bytes.length) this.#grow(end - base, base);
    this.#put(this.#bytes, bytes, offset);
    this.#top = Math.max(this.#top, end);
  }

  /** A copy of bytes from an offset on, as many as lie together, and none from `to` on. */
  read(from: number, to: number): Uint8Array {
    const start = from % this.#bytes.length;
    return this.#bytes.slice(start, Math.min(start + Math.min(to - from, MAX_READ), this.#bytes.length));
  }

  /** Gives memory back: nothing in it is needed any more. */
  clear(): void {
    if (this.#bytes.length > MAX_KEPT) this.#bytes = new Uint8Array();
    this.#top = 0;
  }

  #grow(needed: number, base: number): void {
    let room = Math.max(this.#bytes.length, MIN_ROOM);
    while (room < needed) room *= 2;
    const grown = new Uint8Array(room);
    for (let at = base; at < this.#top; ) {
      const piece = this.#piece(at, this.#top);
      this.#put(grown, piece, at);
      at += piece.length;
    }
    this.#bytes = grown;
  }

  /** A view of what lies together from an offset on. */
  #piece(from: number, to: number): Uint8Array {
    const start = from % this.#bytes.length;
    return this.#bytes.subarray(start, start + to - from);
  }

  #put(ring: Uint8Array, bytes: Uint8Array, offset: number): void {
    const start = offset % ring.length;
    const fits = ring.length - start;
    if (bytes.length <= fits) return ring.set(bytes, start);
    ring.set(bytes.subarray(0, fits), start);
    ring.set(bytes.subarray(fits), 0);
  }
}
