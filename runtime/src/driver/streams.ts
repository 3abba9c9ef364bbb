import { codeNumber, MeshError } from "../codec/code.ts";
import type { Input } from "../codec/input.ts";
import { detach } from "../guard.ts";
import { Measure } from "./length.ts";
import { Opening } from "./opening.ts";
import type { Timers } from "./timers.ts";

/** Most bytes of one `StreamData`: one frame of the channel. */
const MAX_CHUNK = 16 * 1024;
/** Consumed bytes are granted again in steps of this size, a quarter of the window of 256 KiB, to save messages. */
const GRANT_STEP = 64 * 1024;
/** Smaller pieces are joined with those before them: each that waits by itself takes a few hundred bytes beside its own. */
const SMALL_CHUNK = 1024;
/** Bytes of a body that nobody reads are taken up to here, then the stream is reset. */
const MAX_DRAIN = 1024 * 1024;

/** A stream to a peer: bytes both ways, each with its own end and its own credit. */
export class MeshStream {
  /** Number on the boundary. */
  readonly number: number;
  /** The peer's id. */
  readonly peer: Uint8Array;
  /** The name that was called. */
  readonly service: string;
  /** What the caller sent with the opening. */
  readonly head: Uint8Array;
  /** Timers of the host. */
  readonly timers: Timers;
  readonly #push: (input: Input) => void;
  readonly #gone: (stream: MeshStream) => void;
  readonly #chunks: Uint8Array[] = [];
  /** Holds the last chunk, with room behind it, if that was joined from several. */
  #joined: Uint8Array = new Uint8Array();
  readonly #abort: AbortController = new AbortController();
  #wakeReader: (() => void) | undefined;
  #wakeWriter: (() => void) | undefined;
  #credit = 0;
  #ungranted = 0;
  #remoteEnded = false;
  #localEnded = false;
  #error: MeshError | undefined;
  readonly #retained: unknown[] = [];

  constructor(
    opened: { stream: number; peer: Uint8Array; service: string; head: Uint8Array },
    timers: Timers,
    push: (input: Input) => void,
    gone: (stream: MeshStream) => void,
  ) {
    this.number = opened.stream;
    this.peer = opened.peer;
    this.service = opened.service;
    this.head = opened.head;
    this.timers = timers;
    this.#push = push;
    this.#gone = gone;
  }

  /** Aborted when the stream is reset, with the error as its reason. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Why the stream was reset, if it was. */
  get error(): MeshError | undefined {
    return this.#error;
  }

  /** Whether the peer has sent its last byte. */
  get remoteEnded(): boolean {
    return this.#remoteEnded;
  }

  /**
   * References something as long as the stream is open. The signal of a `Request` follows its source only while the request itself
   * is referenced: Node keeps no more than a weak reference to either.
   */
  retain(value: unknown): void {
    this.#retained.push(value);
  }

  /**
   * Waits until it is known whether the peer sends any bytes, and says whether it does; it may when that is not known within
   * `longest_ms`. Rejects when the stream was reset.
   */
  async hasBytes(longest_ms: number): Promise<boolean> {
    let isLate = false;
    const timer = this.timers.after(longest_ms, () => {
      isLate = true;
      this.#wakeReader?.();
    });
    try {
      while (this.#chunks.length === 0 && !this.#remoteEnded && !isLate) {
        if (this.#error !== undefined) throw this.#error;
        await new Promise<void>((resolve) => {
          this.#wakeReader = resolve;
        });
      }
    } finally {
      timer.cancel();
    }
    return this.#chunks.length > 0 || !this.#remoteEnded;
  }

  /** The next bytes from the peer, or `undefined` after the last. Rejects when the stream was reset. */
  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const chunk = this.#chunks.shift();
      if (chunk !== undefined) {
        this.#grant(chunk.length);
        return chunk;
      }
      if (this.#remoteEnded) return undefined;
      if (this.#error !== undefined) throw this.#error;
      await new Promise<void>((resolve) => {
        this.#wakeReader = resolve;
      });
    }
  }

  /** The same of a body whose length is said. Resets the stream and rejects when it is another one. */
  async readMeasured(measure: Measure): Promise<Uint8Array | undefined> {
    const chunk = await this.read();
    try {
      if (chunk === undefined) measure.end();
      else measure.add(chunk.length);
      return chunk;
    } catch (error) {
      this.reset(codeNumber("BadMessage"));
      throw error;
    }
  }

  /** What the peer sends, as a body. What nobody wants any more is drained, so that the peer may end it. */
  readable(length?: number): ReadableStream<Uint8Array<ArrayBuffer>> {
    const measure = new Measure(length);
    return new ReadableStream(
      {
        pull: async (controller) => {
          const chunk = await this.readMeasured(measure);
          if (chunk === undefined) controller.close();
          else controller.enqueue(chunk as Uint8Array<ArrayBuffer>);
        },
        cancel: () => detach("the rest of a body", this.drain()),
      },
      // Nothing is read ahead: credit follows what the application consumes.
      { highWaterMark: 0 },
    );
  }

  /** Reads and drops what the peer still sends, up to a bound. */
  async drain(): Promise<void> {
    let dropped = 0;
    try {
      for (let chunk = await this.read(); chunk !== undefined; chunk = await this.read()) {
        dropped += chunk.length;
        if (dropped > MAX_DRAIN) return this.reset(codeNumber("StreamRefused"));
      }
    } catch {
      // The stream is gone, and with it what was to be dropped.
    }
  }

  /** Sends bytes as the peer's credit allows. Rejects when the stream was reset. */
  async write(bytes: Uint8Array): Promise<void> {
    let rest = this.#send(bytes);
    while (rest.length > 0) {
      if (this.#error !== undefined) throw this.#error;
      await new Promise<void>((resolve) => {
        this.#wakeWriter = resolve;
      });
      rest = this.#send(rest);
    }
  }

  /** Sends the last bytes and ends this direction; what credit allows at once goes together with the end. */
  async finish(bytes: Uint8Array): Promise<void> {
    const rest = this.#send(bytes);
    if (rest.length > 0) await this.write(rest);
    this.end();
  }

  /** Sends a head and a whole body and ends this direction. Rejects when the body fails, or the stream was reset. */
  async answer(head: Uint8Array, body: ReadableStream<Uint8Array>, measure: Measure): Promise<void> {
    await this.write(head);
    await this.#pipe(body, measure, async (bytes) => this.write(bytes));
    this.end();
  }

  /**
   * The same, and a short answer travels whole: whoever provides it may be gone the next moment, and a caller who has not
   * seen its head can ask another. Its length is known then, and `head` is told.
   */
  async answerWhole(
    head: (length?: number) => Uint8Array,
    body: ReadableStream<Uint8Array>,
    measure: Measure,
  ): Promise<void> {
    const opening = new Opening(head, (bytes) => this.write(bytes), this.timers);
    try {
      await this.#pipe(body, measure, async (bytes) => {
        if (opening.takes(bytes)) return;
        await opening.sent();
        await this.write(bytes);
      });
      const held = opening.take(true);
      await opening.sent();
      await this.finish(held);
    } catch (error) {
      await opening.sent().catch(() => undefined);
      throw error;
    }
  }

  /** Ends this direction. */
  end(): void {
    if (this.#localEnded || this.#error !== undefined) return;
    this.#localEnded = true;
    this.#push({ type: "StreamEnd", stream: this.number });
    if (this.#remoteEnded) this.#gone(this);
  }

  /** Gives the stream up, both ways. Nothing happens when it has ended already. */
  reset(code: number): void {
    if (this.#error !== undefined || (this.#localEnded && this.#remoteEnded)) return;
    this.#push({ type: "StreamReset", stream: this.number, code });
    this.fail(new MeshError(code));
  }

  /** The driver brings bytes. */
  onData(data: Uint8Array): void {
    if (data.length > 0) this.#keep(data);
    this.#wakeReader?.();
  }

  /** The driver brings the peer's end. */
  onEnd(): void {
    this.#remoteEnded = true;
    this.#wakeReader?.();
    if (this.#localEnded && this.#error === undefined) this.#gone(this);
  }

  /** The driver brings credit. */
  onCredit(bytes: number): void {
    this.#credit += bytes;
    this.#wakeWriter?.();
  }

  /** The stream is gone: what waits on it fails. */
  fail(error: MeshError): void {
    if (this.#error !== undefined) return;
    this.#error = error;
    this.#gone(this);
    this.#abort.abort(error);
    this.#wakeReader?.();
    this.#wakeWriter?.();
  }

  /** Hands a whole body on. */
  async #pipe(
    body: ReadableStream<Uint8Array>,
    measure: Measure,
    write: (bytes: Uint8Array) => Promise<void>,
  ): Promise<void> {
    const reader = body.getReader();
    const stop = (reason: unknown): void => {
      reader.cancel(reason).catch(() => undefined);
    };
    const gone = (): void => stop(this.#error);
    this.signal.addEventListener("abort", gone, { once: true });
    try {
      for (let next = await reader.read(); !next.done; next = await reader.read()) {
        measure.add(next.value.length);
        await write(next.value);
      }
      // One that was given up is told so by whoever writes next.
      if (this.#error === undefined) measure.end();
    } catch (error) {
      stop(error);
      throw error;
    } finally {
      this.signal.removeEventListener("abort", gone);
    }
  }

  /** Keeps bytes until they are read. The peer chooses how it cuts them: memory follows the bytes, which the credit bounds. */
  #keep(data: Uint8Array): void {
    const last = this.#chunks.at(-1);
    const needed = (last?.length ?? 0) + data.length;
    if (last === undefined || data.length >= SMALL_CHUNK || needed > MAX_CHUNK) {
      this.#chunks.push(data);
      return;
    }
    if (last.buffer !== this.#joined.buffer || needed > this.#joined.length) {
      this.#joined = new Uint8Array(Math.min(MAX_CHUNK, 2 * needed));
      this.#joined.set(last);
    }
    this.#joined.set(data, last.length);
    this.#chunks[this.#chunks.length - 1] = this.#joined.subarray(0, needed);
  }

  /** Sends as much as credit allows; returns the rest. */
  #send(bytes: Uint8Array): Uint8Array {
    let rest = bytes;
    while (rest.length > 0 && this.#credit > 0 && this.#error === undefined) {
      const length = Math.min(rest.length, this.#credit, MAX_CHUNK);
      this.#credit -= length;
      this.#push({ type: "StreamData", stream: this.number, data: rest.subarray(0, length) });
      rest = rest.subarray(length);
    }
    return rest;
  }

  #grant(bytes: number): void {
    this.#ungranted += bytes;
    if (this.#ungranted < GRANT_STEP || this.#remoteEnded || this.#error !== undefined) return;
    this.#push({ type: "StreamCredit", stream: this.number, bytes: this.#ungranted });
    this.#ungranted = 0;
  }
}
