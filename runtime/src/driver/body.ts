import { codeNumber } from "../codec/code.ts";
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

  /** Sends the body from its start and ends the stream's direction; whoever sent it before stops. */
  async send(stream: MeshStream): Promise<void> {
    const sender = ++this.#senders;
    try {
      for (let index = 0; ; index++) {
        while (index === this.#dropped + this.#kept.length && !this.#isDone) await this.#read();
        if (sender !== this.#senders || stream.error !== undefined) return;
        const chunk = this.#kept[index - this.#dropped];
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

  /** Reads on, once for all that wait. */
  #read(): Promise<void> {
    this.#reading ??= this.#readOnce().finally(() => {
      this.#reading = undefined;
    });
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
