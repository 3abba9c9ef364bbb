/** How long the head of an answer waits for its body. */
const HOLD_MS = 10;
/** An answer up to this size is sent as a whole if all of it is there in time: one frame of the channel. */
const MAX_WHOLE = 16 * 1024;

const NOTHING: Uint8Array = new Uint8Array();

/** The beginning of an answer, which is held back for a moment. */
export class Opening {
  readonly #send: (bytes: Uint8Array) => Promise<void>;
  readonly #timer: ReturnType<typeof setTimeout>;
  #held: Uint8Array | undefined;
  #sending: Promise<void> = Promise.resolve();

  constructor(head: Uint8Array, send: (bytes: Uint8Array) => Promise<void>) {
    this.#held = head;
    this.#send = send;
    this.#timer = setTimeout(() => this.#release(), HOLD_MS);
  }

  /** Whether it holds these bytes back, too. */
  takes(bytes: Uint8Array): boolean {
    const held = this.#held;
    if (held === undefined) return false;
    const length = held.length + bytes.length;
    if (length > MAX_WHOLE) return false;
    const both = new Uint8Array(length);
    both.set(held);
    both.set(bytes, held.length);
    this.#held = both;
    return true;
  }

  /** What is held back, which is nobody's to send but the caller's from now on. */
  take(): Uint8Array {
    clearTimeout(this.#timer);
    const held = this.#held ?? NOTHING;
    this.#held = undefined;
    return held;
  }

  /** Resolves when nothing is held back any more. */
  sent(): Promise<void> {
    this.#release();
    return this.#sending;
  }

  #release(): void {
    if (this.#held === undefined) return;
    this.#sending = this.#send(this.take());
    // Whoever waits for it hears of a failure.
    this.#sending.catch(() => undefined);
  }
}
