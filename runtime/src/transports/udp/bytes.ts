import { Deque } from "./deque.ts";

interface Chunk {
  /** Bytes of the stream before it. */
  readonly at: number;
  readonly bytes: Uint8Array;
}

/** The bytes of a stream from what is still needed to what was written last. Chunks are kept as they were given. */
export class ByteQueue {
  readonly #chunks: Deque<Chunk> = new Deque();
  #start = 0;
  #end = 0;

  /** Offset behind the last byte. */
  get end(): number {
    return this.#end;
  }

  /** How many bytes are kept. */
  get length(): number {
    return this.#end - this.#start;
  }

  /** Appends bytes, which nobody may change any more. */
  push(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#chunks.push({ at: this.#end, bytes });
    this.#end += bytes.length;
  }

  /** The bytes from one offset to another, both of them kept; a view where they lie in one chunk. */
  slice(from: number, to: number): Uint8Array {
    let index = this.#chunks.search(({ at, bytes }) => at + bytes.length > from);
    const first = this.#chunks.at(index);
    if (first === undefined || from >= to) return new Uint8Array();
    if (to <= first.at + first.bytes.length) return first.bytes.subarray(from - first.at, to - first.at);
    const joined = new Uint8Array(to - from);
    for (let chunk: Chunk | undefined = first; chunk !== undefined && chunk.at < to; ) {
      const start = Math.max(from, chunk.at);
      joined.set(chunk.bytes.subarray(start - chunk.at, to - chunk.at), start - from);
      chunk = this.#chunks.at(++index);
    }
    return joined;
  }

  /** Forgets what is below an offset. */
  dropBelow(offset: number): void {
    this.#start = Math.max(this.#start, Math.min(offset, this.#end));
    for (let first = this.#chunks.first; first !== undefined; first = this.#chunks.first) {
      if (first.at + first.bytes.length > this.#start) return;
      this.#chunks.shift();
    }
  }
}
