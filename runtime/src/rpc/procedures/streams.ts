import { MeshError } from "../../codec/code.ts";
import { toHex } from "../../codec/hex.ts";
import { randomBytes } from "../../driver/random.ts";
import type { Timer, Timers } from "../../driver/timers.ts";
import { type Share, Shares, sourceOf } from "../../transports/shares.ts";
import { ipPortOf } from "../endpoint.ts";
import { RpcRefusal, type RpcRequest } from "../handler.ts";
import {
  IDLE_MS,
  MAX_CALLER_STREAMS,
  MAX_ENDED_STREAMS,
  MAX_NETWORK_STREAMS,
  MAX_STREAMS,
  WAIT_MS,
} from "./limits.ts";
import { BatchSource, type ItemFormat, type Produce } from "./source.ts";
import { STREAM_BYTES } from "./wire.ts";

interface Stream {
  readonly key: string;
  readonly caller: string;
  /** The network that its caller began it from; where that is not known, the caller. */
  readonly network: string;
  readonly batches: BatchSource;
  /** Its place among those that are open. */
  readonly share: Share;
  /** Callers that wait for a batch. */
  waiting: number;
  idle: Timer | undefined;
}

/** The streams that callers have begun. */
export class StreamTable {
  readonly #format: ItemFormat;
  readonly #timers: Timers;
  readonly #shares: Shares;
  readonly #streams: Map<string, Stream> = new Map();

  /** Has room for at most so many that are open. */
  constructor(format: ItemFormat, timers: Timers, most: number = MAX_STREAMS) {
    this.#format = format;
    this.#timers = timers;
    this.#shares = new Shares(MAX_NETWORK_STREAMS, most);
  }

  /** Begins a stream and returns its first batch. Its caller does not know it before, and must not give up until then. */
  async begin(request: RpcRequest, produce: Produce): Promise<Uint8Array> {
    const stream = this.#open(request, produce);
    const { signal } = request;
    const giveUp = (): void => this.#remove(stream, signal.reason);
    signal.addEventListener("abort", giveUp, { once: true });
    try {
      return await this.#batch(stream, 0, request);
    } finally {
      signal.removeEventListener("abort", giveUp);
    }
  }

  /**
   * Begins a stream that takes a place only if its first batch is not its last, and returns that batch, for which the caller waits as
   * long as it likes.
   */
  async answer(request: RpcRequest, produce: Produce): Promise<Uint8Array> {
    const { signal, timeout_ms } = request;
    const id = randomBytes(STREAM_BYTES);
    const batches = new BatchSource(id, produce, this.#format, this.#timers);
    const giveUp = (): void => batches.end(signal.reason);
    signal.addEventListener("abort", giveUp, { once: true });
    try {
      const first = await batches.ask(0, timeout_ms);
      if (!batches.isOver) this.#expect(this.#keep(id, request, batches, this.#place(request)));
      return first;
    } catch (error) {
      batches.end(error as MeshError);
      throw error;
    } finally {
      signal.removeEventListener("abort", giveUp);
    }
  }

  /** Returns a batch of a stream that its caller has begun. */
  async ask(request: RpcRequest, id: Uint8Array, number: number): Promise<Uint8Array> {
    const stream = this.#find(request, id);
    if (stream === undefined) throw new RpcRefusal("UnknownStream");
    return this.#batch(stream, number, request);
  }

  /** Ends a stream for its caller; one that is not open any more has ended. */
  end(request: RpcRequest, id: Uint8Array): void {
    const stream = this.#find(request, id);
    if (stream !== undefined) this.#remove(stream, new MeshError("Cancelled", "the caller ended the stream"));
  }

  /** Ends all streams. */
  close(): void {
    const reason = new MeshError("Cancelled", "the service ends its streams");
    for (const stream of this.#streams.values()) this.#remove(stream, reason);
  }

  #open(request: RpcRequest, produce: Produce): Stream {
    const share = this.#place(request);
    const id = randomBytes(STREAM_BYTES);
    try {
      const batches = new BatchSource(id, produce, this.#format, this.#timers);
      return this.#keep(id, request, batches, share);
    } catch (error) {
      share.release();
      throw error;
    }
  }

  #place({ caller, source }: RpcRequest): Share {
    const own = [...this.#streams.values()].filter((stream) => stream.caller === caller && !isOver(stream));
    const ip = ipPortOf(source)?.ip ?? "";
    const share = own.length < MAX_CALLER_STREAMS ? this.#shares.take(ip) : undefined;
    if (share === undefined) throw new RpcRefusal("TooManyStreams");
    return share;
  }

  #keep(id: Uint8Array, { caller, source }: RpcRequest, batches: BatchSource, share: Share): Stream {
    const network = sourceOf(ipPortOf(source)?.ip ?? "") ?? caller;
    const stream = { key: toHex(id), caller, network, batches, share, waiting: 0, idle: undefined };
    this.#streams.set(stream.key, stream);
    return stream;
  }

  /** Returns a stream to its caller alone: an id is no secret. */
  #find({ caller }: RpcRequest, id: Uint8Array): Stream | undefined {
    const stream = this.#streams.get(toHex(id));
    return stream?.caller === caller ? stream : undefined;
  }

  async #batch(stream: Stream, number: number, { timeout_ms }: RpcRequest): Promise<Uint8Array> {
    stream.idle?.cancel();
    stream.waiting++;
    try {
      return await stream.batches.ask(number, Math.min(WAIT_MS, timeout_ms / 2));
    } finally {
      stream.waiting--;
      if (isOver(stream)) this.#settle(stream);
      if (stream.waiting === 0 && this.#streams.has(stream.key)) this.#expect(stream);
    }
  }

  /** Ends a stream that nobody asks any more. */
  #expect(stream: Stream): void {
    const late = new MeshError("TimedOut", "the caller asks the stream no more");
    stream.idle = this.#timers.after(IDLE_MS, () => this.#remove(stream, late));
    stream.idle.unref();
  }

  /** Gives the place of a stream at its end back, and keeps its last batch as long as there is room. */
  #settle({ share }: Stream): void {
    share.release();
    const ended = [...this.#streams.values()].filter(isOver);
    if (ended.length <= MAX_ENDED_STREAMS) return;
    const ofNetwork = largest(ended, ({ network }) => network);
    const [oldest] = largest(ofNetwork, ({ caller }) => caller);
    if (oldest !== undefined) this.#remove(oldest, undefined);
  }

  #remove(stream: Stream, reason: MeshError | undefined): void {
    this.#streams.delete(stream.key);
    stream.idle?.cancel();
    stream.share.release();
    if (reason !== undefined) stream.batches.end(reason);
  }
}

function isOver({ batches }: Stream): boolean {
  return batches.isOver;
}

/** Returns the streams of the source that has the most of them. */
function largest(streams: readonly Stream[], sourceIn: (stream: Stream) => string): readonly Stream[] {
  const groups = new Map<string, Stream[]>();
  for (const stream of streams) {
    const source = sourceIn(stream);
    const group = groups.get(source);
    if (group === undefined) groups.set(source, [stream]);
    else group.push(stream);
  }
  return [...groups.values()].reduce((most, group) => (group.length > most.length ? group : most));
}
