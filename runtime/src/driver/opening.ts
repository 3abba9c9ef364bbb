import { concat } from "../concat.ts";
import type { Timer, Timers } from "./timers.ts";

/** How long the head of an answer waits for its body. */
const HOLD_MS = 10;
/** An answer up to this size is sent as a whole if all of it is there in time: one frame of the channel. */
const MAX_WHOLE = 16 * 1024;

const NOTHING: Uint8Array = new Uint8Array();

/** The beginning of an answer, which is held back for a moment. */
export class Opening {
  readonly #head: (length?: number) => Uint8Array;
  readonly #send: (bytes: Uint8Array) => Promise<void>;
  readonly #timer: Timer;
  /** What of the body is held back; nothing any more once the head was taken. */
  #held: Uint8Array | undefined = NOTHING;
  #room: number;
  #sending: Promise<void> = Promise.resolve();

  /** `head` encodes the head, with the length of the body if that is known. */
  constructor(
    head: (length?: number) => Uint8Array,
    send: (bytes: Uint8Array) => Promise<void>,
    timers: Timers,
  ) {
    this.#head = head;
    this.#room = MAX_WHOLE - head(MAX_WHOLE).length;
    this.#send = send;
    this.#timer = timers.after(HOLD_MS, () => this.#release());
  }

  /** Whether it holds these bytes back, too. */
  takes(bytes: Uint8Array): boolean {
    const held = this.#held;
    if (held === undefined) return false;
    if (held.length + bytes.length > this.#room) return false;
    this.#held = concat([held, bytes]);
    return true;
  }

  /** What is held back, which is nobody's to send but the caller's from now on; with the length of the body if that is whole. */
  take(isWhole: boolean): Uint8Array {
    this.#timer.cancel();
    const held = this.#held;
    this.#held = undefined;
    return held === undefined ? NOTHING : concat([this.#head(isWhole ? held.length : undefined), held]);
  }

  /** Resolves when nothing is held back any more. */
  sent(): Promise<void> {
    this.#release();
    return this.#sending;
  }

  #release(): void {
    if (this.#held === undefined) return;
    this.#sending = this.#send(this.take(false));
    // Whoever waits for it hears of a failure.
    this.#sending.catch(() => undefined);
  }
}
