import { unlessAborted } from "./deadline.ts";

/** Memory for a body whose pieces are small; it doubles as they arrive. */
const FIRST_BYTES: number = 16 * 1024;

/** How a body is read whole. */
export interface Collecting {
  /** Most bytes that it has. */
  readonly most: number;
  /** Makes the error for a longer one. */
  readonly tooLong: () => unknown;
  /** Takes room for so many bytes more before they are kept, or throws. */
  readonly take?: ((bytes: number) => void) | undefined;
  /** Ends the reading. */
  readonly signal: AbortSignal;
}

/** Reads a body whole. If that fails, the rest of it is cancelled: nothing of it arrives any more. */
export async function collect(
  body: ReadableStream<Uint8Array> | null | undefined,
  { most, tooLong, take, signal }: Collecting,
): Promise<Uint8Array> {
  // Not every browser iterates over a body.
  const reader = body?.getReader();
  if (reader === undefined) return new Uint8Array();
  const kept = new Growing(most);
  try {
    for (;;) {
      const { value } = await unlessAborted(reader.read(), signal);
      if (value === undefined) return kept.whole();
      if (kept.length + value.length > most) throw tooLong();
      take?.(value.length);
      kept.append(value);
    }
  } catch (error) {
    // Whoever sends it may take long to stop, or fail.
    reader.cancel(error).catch(() => undefined);
    throw error;
  }
}

/** Bytes in one piece of memory: a list of tiny pieces would take many times what they hold. */
class Growing {
  readonly #most: number;
  #bytes: Uint8Array = new Uint8Array();
  #length = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get length(): number {
    return this.#length;
  }

  append(piece: Uint8Array): void {
    const length = this.#length + piece.length;
    // A body often is one piece, which need not be copied.
    if (this.#length === 0) this.#bytes = piece;
    else {
      if (length > this.#bytes.length) this.#grow(length);
      this.#bytes.set(piece, this.#length);
    }
    this.#length = length;
  }

  whole(): Uint8Array {
    const isFull = this.#length === this.#bytes.length;
    return isFull ? this.#bytes : this.#bytes.slice(0, this.#length);
  }

  #grow(length: number): void {
    const doubled = Math.min(Math.max(2 * this.#bytes.length, FIRST_BYTES), this.#most);
    const grown = new Uint8Array(Math.max(length, doubled));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}
