import { type CodeName, type ErrorClass, MeshError } from "../../codec/code.ts";
import type { Input } from "../../codec/input.ts";
import { MeshStream } from "../../driver/streams.ts";
import type { Timers } from "../../driver/timers.ts";
import { detach } from "../../guard.ts";
import type { Answered, ProcedureCalls } from "../procedures/calls.ts";
import { ProcedureError } from "../procedures/error.ts";
import { IDLE_MS } from "../procedures/limits.ts";
import { type PulledBatch, pullBatches } from "../procedures/pull.ts";

/** Bytes that an answer may be ahead of its reader, which grants more in steps of 64 KiB: with a batch on its way what a session allows. */
const AHEAD_BYTES: number = 128 * 1024;
/** How long a replica may take to give a batch: it waits half of that for the body to go on. */
const BATCH_TIMEOUT_MS = 20_000;
/** How often a replica hears of a reader that takes nothing: half of the time for which it keeps a stream that nobody asks. */
const KEEP_MS: number = IDLE_MS / 2;
/** What an application is told in a session, of which a peer gives only the class. */
const OF_CLASS: Readonly<Record<ErrorClass, CodeName>> = {
  Usage: "StreamRefused",
  Malformed: "BadMessage",
  Misbehaved: "BadStream",
  Incompatible: "WrongVersion",
  Unreachable: "Disconnected",
  Limit: "TooManyStreams",
  Store: "StoreFailed",
  Service: "StreamRefused",
};
const NOTHING: Uint8Array = /* @__PURE__ */ new Uint8Array();

/** The parts of an answer's stream. */
export interface PulledParts {
  readonly service: string;
  readonly timers: Timers;
  /** Learns that the answer has ended. */
  readonly ended?: (() => void) | undefined;
}

/** Makes the stream of an answer whose first batch has come; the others are pulled as they are consumed. */
export function pulledStream(calls: ProcedureCalls, first: Answered, parts: PulledParts): MeshStream {
  const window = new Window(parts.timers);
  const stream = openStream(parts, window.push);
  const begin = (): Promise<Answered> => Promise.resolve(first);
  const batches = pullBatches(calls, begin, { timeout_ms: BATCH_TIMEOUT_MS, signal: window.signal });
  detach("the rest of an answer", follow(stream, batches, window));
  return stream;
}

/** Makes the stream of a request that may have been carried out and has no answer. */
export function failedStream(error: MeshError, parts: PulledParts): MeshStream {
  const stream = openStream(parts, () => undefined);
  stream.fail(error);
  return stream;
}

/** Makes a stream on which everything was sent, to a provider whose id is not known. */
function openStream(
  { service, timers, ended = () => undefined }: PulledParts,
  push: (input: Input) => void,
): MeshStream {
  const opened = { stream: 0, peer: NOTHING, service, head: NOTHING };
  const stream = new MeshStream(opened, timers, push, ended);
  stream.end();
  return stream;
}

async function follow(
  stream: MeshStream,
  batches: AsyncIterable<PulledBatch>,
  window: Window,
): Promise<void> {
  try {
    for await (const { items, keep } of batches) {
      stream.onData(items);
      await window.take(items.length, keep);
    }
    stream.onEnd();
  } catch (error) {
    stream.fail(failureOf(error));
  }
}

function failureOf(error: unknown): MeshError {
  if (error instanceof ProcedureError) return errorInSession(error);
  return error instanceof MeshError ? error : new MeshError("BadMessage", "", { cause: error });
}

/** Returns the error that a session gives for what a provider says: it is told the class alone, and a replica that is gone ends it. */
export function errorInSession({ class: fault, name }: ProcedureError): MeshError {
  return new MeshError(name === "UnknownStream" ? "Disconnected" : OF_CLASS[fault]);
}

/** How far an answer is ahead of its reader. */
class Window {
  readonly #timers: Timers;
  readonly #ending: AbortController = new AbortController();
  #ahead = 0;
  #wake: () => void = () => undefined;

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  /** Aborts when the reader has given the answer up. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** Takes what the stream tells its peer. */
  readonly push = (input: Input): void => {
    if (input.type === "StreamCredit") this.#ahead -= input.bytes;
    else if (input.type === "StreamReset") this.#ending.abort(new MeshError(input.code));
    this.#wake();
  };

  /** Notes bytes that have arrived, and waits until others may. Rejects when the reader has given the answer up, or `keep` does. */
  async take(bytes: number, keep: () => Promise<unknown>): Promise<void> {
    this.#ahead += bytes;
    while (this.#ahead > AHEAD_BYTES && !this.signal.aborted) {
      const { promise: room, resolve, reject } = Promise.withResolvers<void>();
      this.#wake = resolve;
      const timer = this.#timers.after(KEEP_MS, () =>
        detach(
          "a batch",
          keep().then(() => resolve(), reject),
        ),
      );
      timer.unref();
      await room;
      timer.cancel();
    }
    this.signal.throwIfAborted();
  }
}
