import { codeNumber } from "../codec/code.ts";
import { concat } from "../concat.ts";
import { Measure } from "./length.ts";
import type { MeshStream } from "./streams.ts";

/** A body that is kept for another attempt has at most so many bytes. */
const MAX_REPLAY: number = 64 * 1024;

/** The body of a request, which remembers what it sent while that is little enough to be sent again. */
export class ReplayableBody {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  readonly #kept: Uint8Array[] = [];
  /** How many chunks came before those that are kept. */
  #dropped = 0;
  #size = 0;
  #isDone: boolean;
  #reading: Promise<void> | undefined;
  #senders = 0;
  #failure: { readonly error: unknown } | undefined;

  constructor(body: ReadableStream<Uint8Array> | null | undefined) {
    this.#reader = body?.getReader();
    this.#isDone = this.#reader === undefined;
  }

  /** Whether all that was read is still known. */
  get isReplayable(): boolean {
    return this.#size <= MAX_REPLAY;
  }

  /** Why the body cannot be sent, if its source failed. */
  get failure(): { readonly error: unknown } | undefined {
    return this.#failure;
  }

  /** All of it, if it was read to its end and is kept. */
  get whole(): Uint8Array | undefined {
    return this.#isDone && this.isReplayable ? concat(this.#kept) : undefined;
  }

  /** Reads what is there at once and may be kept; the length of the body if that is all of it. */
  async readAhead(): Promise<number | undefined> {
    const { promise: late, resolve } = Promise.withResolvers<"late">();
    // It fires in any case: a Durable Object keeps something of each timeout that is cleared.
    setTimeout(resolve, 0, "late");
    try {
      while (!this.#isDone && this.isReplayable) {
        if ((await Promise.race([this.#read(), late])) === "late") return undefined;
      }
      return this.#isDone ? this.#size : undefined;
    } catch {
      // Whoever sends it hears of the failure again.
      return undefined;
    }
  }

  /**
   * Sends the body from its start and ends the stream's direction; whoever sent it before stops. One of another length than `length` is
   * broken off.
   */
  async send(stream: MeshStream, length: number | undefined): Promise<void> {
    const sender = ++this.#senders;
    const measure = new Measure(length);
    try {
      for (let index = 0; ; index++) {
        while (index === this.#dropped + this.#kept.length && !this.#isDone) await this.#read();
        if (sender !== this.#senders || stream.error !== undefined) return;
        const chunk = this.#kept[index - this.#dropped];
        this.#check(measure, chunk);
        if (chunk === undefined) return stream.end();
        if (!this.isReplayable) this.#dropped += this.#kept.splice(0, index - this.#dropped + 1).length;
        await stream.write(chunk);
      }
    } catch {
      // What went wrong shows in the answer, in the stream's reset, or as the body's failure.
      if (this.#failure !== undefined) stream.reset(codeNumber("StreamRefused"));
    }
  }

  /** The body ends with a stream: when that is gone its source is told. */
  follow(stream: MeshStream): void {
    if (this.#reader === undefined) return;
    const stop = (): void => this.cancel(stream.error);
    stream.signal.addEventListener("abort", stop, { once: true });
    if (stream.error !== undefined) stop();
  }

  /** Nobody sends the body any more. */
  cancel(reason: unknown): void {
    this.#senders++;
    this.#reader?.cancel(reason).catch(() => undefined);
  }

  /** Takes note of a body that is longer or shorter than it is said to be. */
  #check(measure: Measure, chunk: Uint8Array | undefined): void {
    try {
      if (chunk === undefined) measure.end();
      else measure.add(chunk.length);
    } catch (error) {
      this.#failure = { error };
      this.#reader?.cancel(error).catch(() => undefined);
      throw error;
    }
  }

  /** Reads on, once for all that wait. */
  #read(): Promise<void> {
    if (this.#reading === undefined) {
      this.#reading = this.#readOnce().finally(() => {
        this.#reading = undefined;
      });
      // Whoever waits hears of a failure; nobody may be waiting.
      this.#reading.catch(() => undefined);
    }
    return this.#reading;
  }

  async #readOnce(): Promise<void> {
    try {
      const next = await this.#reader?.read();
      if (next === undefined || next.done) this.#isDone = true;
      else {
        this.#size += next.value.length;
        this.#kept.push(next.value);
      }
    } catch (error) {
      this.#failure = { error };
      throw error;
    }
  }
}
