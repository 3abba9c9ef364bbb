import type { Duplex } from "node:stream";
import type { Dialler, Link, Opened, Path, PathHost } from "../driver/paths.ts";
import { unref } from "../driver/timers.ts";
import { detach, guarded } from "../guard.ts";
import { FrameSplitter, joinFrames } from "./frames.ts";
import { KeepAlive } from "./keep-alive.ts";
import { type DialOptions, Permission, type Place, placeOf, textOf } from "./place.ts";
import { DIAL_TIMEOUT_MS, MAX_BUFFERED } from "./protocol.ts";

/** Time for what is queued, and for the peer's last words, when a path is closed. */
const CLOSE_TIMEOUT_MS = 2_000;
/** What says that this side lives: a frame of length 0. */
const ALIVE: Uint8Array = /* @__PURE__ */ joinFrames([/* @__PURE__ */ new Uint8Array()]);

/** A stream of bytes. */
export interface ByteStream extends Duplex {
  /** Bytes that the stream keeps, if those are not `writableLength`. */
  readonly keptBytes?: number;
}

/**
 * Carries the frames of a path over an open stream of bytes. The half of it that the peer ends must not end the other, and
 * it ends by itself when the peer is gone.
 */
export function carryStream(stream: ByteStream, host: PathHost, opened: Opened): Path {
  const splitter = new FrameSplitter();
  const keepAlive = new KeepAlive({
    dialled: opened.dial !== 0,
    ask: () => stream.write(ALIVE),
    giveUp: () => path.close(1001, "no answer"),
  });
  let isOpen = true;
  const hangUp = (): void => {
    if (!isOpen) return;
    isOpen = false;
    keepAlive.stop();
    // What is queued goes out, and what comes is read on for a moment: closing a socket with unread bytes resets it.
    stream.end();
    const timer = setTimeout(() => stream.destroy(), CLOSE_TIMEOUT_MS);
    unref(timer);
    stream.once("close", () => clearTimeout(timer));
  };
  const link: Link = {
    get waitingBytes() {
      return stream.destroyed ? 0 : (stream.keptBytes ?? stream.writableLength);
    },
    send: (frame) => {
      if (link.waitingBytes > MAX_BUFFERED) throw new Error("the peer takes its frames too slowly");
      send(stream, frame);
    },
    close: hangUp,
    abort: () => {
      isOpen = false;
      keepAlive.stop();
      stream.destroy();
    },
  };
  const path = host.open(link, opened);
  const hear = (bytes: Uint8Array): void => {
    if (isOpen) receive(bytes, splitter, keepAlive, path, opened.dial === 0 ? stream : undefined);
  };
  stream.on("data", guarded("a connection", hear));
  const ended = guarded("a connection", () => {
    path.closed();
    hangUp();
  });
  stream.on("end", ended);
  stream.on("error", ended);
  stream.on("close", ended);
  if (stream.destroyed) ended();
  return path;
}

function send(stream: Duplex, frame: Uint8Array): void {
  if (stream.writableCorked === 0) {
    // One write for all frames of the same turn.
    stream.cork();
    queueMicrotask(() => stream.uncork());
  }
  stream.write(joinFrames([frame]));
}

/** Hands in the frames that are whole now; each sign of life is answered on `answer`. */
function receive(
  bytes: Uint8Array,
  splitter: FrameSplitter,
  keepAlive: KeepAlive,
  path: Path,
  answer: Duplex | undefined,
): void {
  try {
    let isAsked = false;
    for (const frame of splitter.push(bytes)) {
      // Bytes that are no whole frame are no sign of life.
      keepAlive.heard();
      if (frame.length > 0) path.received(frame);
      else isAsked = true;
    }
    // One answer serves for all that came at once: a peer that does not read must not make the queue grow.
    if (isAsked && answer?.writableLength === 0) answer.write(ALIVE);
  } catch {
    path.close(1009, "a frame has at most 65536 bytes");
  }
}

/** Opens a stream to a port of an IP address; fails when the signal is aborted. */
export type Connect = (ip: string, port: number, signal: AbortSignal) => Promise<ByteStream>;

/** Dials addresses `scheme://host:port` where a platform has streams to them. */
export class StreamDialler implements Dialler {
  readonly schemes: readonly string[];
  readonly #scheme: string;
  readonly #permission: Permission;
  readonly #connect: Connect;

  constructor(scheme: string, options: DialOptions, connect: Connect) {
    this.schemes = [scheme];
    this.#scheme = scheme;
    this.#permission = new Permission(this.schemes, options);
    this.#connect = connect;
  }

  dial(dial: number, address: string, host: PathHost): void {
    const place = placeOf(address, this.#scheme);
    const expired = new AbortController();
    const timer = setTimeout(() => expired.abort(new Error("no answer in time")), DIAL_TIMEOUT_MS);
    const dialled = this.#reach(place, expired.signal)
      .then(
        (stream) => carryStream(stream, host, { dial, kind: "Ordered", remote: textOf(place) }),
        (error: Error) => host.dialFailed(dial, `${address}: ${error.message}`),
      )
      .finally(() => clearTimeout(timer));
    detach("a dial", dialled);
  }

  /** A stream to the first address of a place that answers. */
  async #reach(place: Place, signal: AbortSignal): Promise<ByteStream> {
    let failure: unknown;
    for (const ip of await this.#permission.resolve(place)) {
      try {
        return await this.#connect(ip, place.port, signal);
      } catch (error) {
        failure = error;
        if (signal.aborted) break;
      }
    }
    throw failure;
  }
}
