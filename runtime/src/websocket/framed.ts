import { codeNumber, MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";
import type { MeshStream } from "../driver/streams.ts";
import type { Timer } from "../driver/timers.ts";
import { detach, guarded } from "../guard.ts";
import {
  ABNORMAL,
  type Connection,
  type Ended,
  INTERNAL_ERROR,
  type Listener,
  MAX_BUFFERED,
  MESSAGE_COST,
  tooMuchWaits,
} from "./connection.ts";
import { encodeClose, encodeFrame, FrameDecoder, FrameError, type FrameEvent, OPCODES } from "./frames.ts";

/** How long the other side may take to answer a close frame, and then to end its stream. */
const CLOSE_TIMEOUT_MS = 10_000;

/** A connection over a stream of the mesh: frames both ways, pings answered, and the closing handshake. */
export class FramedConnection implements Connection {
  /** Resolves when nothing comes any more. */
  readonly closed: Promise<void>;
  readonly #stream: MeshStream;
  readonly #rest: Uint8Array;
  readonly #isCaller: boolean;
  readonly #decoder: FrameDecoder;
  readonly #queue: { readonly frame: Uint8Array; readonly size: number }[] = [];
  readonly #resolveClosed: () => void;
  /** The answer to the last ping that was not answered; those before need none (RFC 6455, 5.5.3). */
  #pong: Uint8Array | undefined;
  #buffered = 0;
  #isWriting = false;
  #hasClosed = false;
  #hasEnded = false;
  #isDrained = false;
  #listener: Listener | undefined;
  #timer: Timer | undefined;

  /** `rest` are bytes that arrived with the head of the answer. */
  constructor(stream: MeshStream, rest: Uint8Array, isCaller: boolean) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    this.#resolveClosed = resolve;
    this.#stream = stream;
    this.#rest = rest;
    this.#isCaller = isCaller;
    this.#decoder = new FrameDecoder(!isCaller);
  }

  get bufferedAmount(): number {
    return this.#buffered;
  }

  listen(listener: Listener): void {
    this.#listener = listener;
    detach("a WebSocket", this.#read());
  }

  send(data: string | Uint8Array): void {
    if (this.#hasClosed) return;
    const payload = typeof data === "string" ? utf8(data) : data;
    const cost = this.#buffered + payload.length + this.#queue.length * MESSAGE_COST;
    if (cost > MAX_BUFFERED) {
      return this.abort(tooMuchWaits());
    }
    const opcode = typeof data === "string" ? OPCODES.text : OPCODES.binary;
    this.#push(encodeFrame(opcode, payload, this.#isCaller), payload.length);
  }

  close(code: number, reason: string): void {
    if (this.#hasClosed) return;
    this.#sendClose(code, reason);
    this.#wait(() => this.abort(new MeshError("TimedOut", "the other side did not answer the close frame")));
  }

  abort(error: Error): void {
    this.#stream.reset(codeNumber("StreamRefused"));
    this.#end({ code: ABNORMAL, reason: "", error });
  }

  async #read(): Promise<void> {
    try {
      for (
        let chunk: Uint8Array | undefined = this.#rest;
        chunk !== undefined;
        chunk = await this.#stream.read()
      ) {
        for (const event of this.#decoder.push(chunk)) this.#onEvent(event);
        if (this.#hasEnded) return;
      }
      this.#isDrained = true;
      const error = new MeshError("Disconnected", "the connection ended without a close frame");
      this.#sendNothingMore();
      this.#end({ code: ABNORMAL, reason: "", error });
    } catch (error) {
      this.#end({ code: ABNORMAL, reason: "", error: this.#failed(error) });
    }
  }

  /** Tells the other side, if it is still there, that reading failed. */
  #failed(error: unknown): Error {
    if (error instanceof FrameError) {
      this.#sendClose(error.code, "");
      return new MeshError(error.code === 1009 ? "TooLarge" : "BadFrame", error.message);
    }
    // What failed if not the stream is whoever listens.
    if (this.#stream.error === undefined) this.#sendClose(INTERNAL_ERROR, "");
    return error instanceof Error ? error : new Error(String(error));
  }

  #onEvent(event: FrameEvent): void {
    switch (event.type) {
      case "text":
      case "binary":
        if (!this.#hasEnded) this.#listener?.message(event.data);
        return;
      case "ping":
        if (this.#hasClosed) return;
        this.#pong = encodeFrame(OPCODES.pong, event.data, this.#isCaller);
        return detach("a WebSocket", this.#write());
      case "close": {
        const { code, reason } = event;
        if (!this.#hasClosed) {
          this.#listener?.closing();
          this.#sendClose(code, reason);
        }
        return this.#end({ code, reason, error: undefined });
      }
      default:
        return event satisfies never;
    }
  }

  #sendClose(code: number, reason: string): void {
    if (this.#hasClosed) return;
    this.#push(encodeClose(code, reason, this.#isCaller), 0);
    this.#sendNothingMore();
  }

  /** What is queued is the last. */
  #sendNothingMore(): void {
    this.#hasClosed = true;
    detach("a WebSocket", this.#write());
  }

  #end(ended: Ended): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#hasClosed = true;
    // The other side has yet to take the last frame and to end its direction; what it sends has no reader any more.
    this.#wait(() => this.#stream.reset(codeNumber("StreamRefused")));
    const drained = this.#stream.drain().then(() => {
      this.#isDrained = true;
      this.#settle();
    });
    detach("a WebSocket", drained);
    this.#resolveClosed();
    this.#listener?.ended(ended);
  }

  #push(frame: Uint8Array, size: number): void {
    this.#queue.push({ frame, size });
    this.#buffered += size;
    detach("a WebSocket", this.#write());
  }

  /** Writes what is queued, a pong before all else, and ends this direction after the last frame. */
  async #write(): Promise<void> {
    if (this.#isWriting) return;
    this.#isWriting = true;
    try {
      for (let next = this.#take(); next !== undefined; next = this.#take()) {
        await this.#stream.write(next.frame);
        this.#buffered -= next.size;
      }
      if (this.#hasClosed) this.#stream.end();
    } catch {
      // The stream was reset, of which reading tells.
    } finally {
      this.#isWriting = false;
      this.#settle();
    }
  }

  #take(): { readonly frame: Uint8Array; readonly size: number } | undefined {
    const pong = this.#pong;
    if (pong === undefined) return this.#queue.shift();
    this.#pong = undefined;
    return { frame: pong, size: 0 };
  }

  #wait(act: () => void): void {
    this.#timer?.cancel();
    this.#timer = this.#stream.timers.after(CLOSE_TIMEOUT_MS, guarded("a WebSocket", act));
    this.#timer.unref();
  }

  /** Nothing is waited for when all was written and nothing comes. */
  #settle(): void {
    const isDone = this.#hasEnded && this.#isDrained && !this.#isWriting;
    if (isDone) this.#timer?.cancel();
  }
}
