import { MeshError } from "../codec/code.ts";

/** The code that tells of a connection that ended without a close frame (RFC 6455, 7.4.1). */
export const ABNORMAL = 1006;

/** The code that stands for a close frame without one (RFC 6455, 7.4.1). */
export const NO_CODE = 1005;

/** The code that tells the other side that this one failed (RFC 6455, 7.4.1). */
export const INTERNAL_ERROR = 1011;

/** Messages that wait to be sent take at most so many bytes, each with `MESSAGE_COST`: two of the largest. */
export const MAX_BUFFERED: number = 32 * 1024 * 1024;

/** What a message that waits takes beside its bytes: without it empty ones would take nothing of the bound. */
export const MESSAGE_COST = 256;

/** How a connection ended. */
export interface Ended {
  /** The close code that arrived, `NO_CODE` when the frame had none, `ABNORMAL` when there was no frame. */
  readonly code: number;
  /** The reason that arrived. */
  readonly reason: string;
  /** What went wrong, if anything did. */
  readonly error: Error | undefined;
}

/** Hears of a connection. */
export interface Listener {
  /** A message arrived. */
  message(data: string | Uint8Array<ArrayBuffer>): void;
  /** The other side begins to close. */
  closing(): void;
  /** Nothing comes any more; said once. */
  ended(ended: Ended): void;
}

/** A WebSocket connection as messages: over a stream of the mesh, or a socket of the platform. */
export interface Connection {
  /** Bytes of messages that wait to be sent, as far as is known. */
  readonly bufferedAmount: number;
  /** Begins to read; said once. */
  listen(listener: Listener): void;
  /** Sends a message. Nothing is sent once the connection is closed. */
  send(data: string | Uint8Array): void;
  /** Closes after all messages, with a code that a frame may hold, or `NO_CODE`. */
  close(code: number, reason: string): void;
  /** Breaks the connection. */
  abort(error: Error): void;
}

/** Joins two connections: what arrives on one is sent on the other, until one ends, and then so does the other. */
export function splice(one: Connection, other: Connection): void {
  one.listen(forward(other));
  other.listen(forward(one));
}

function forward(to: Connection): Listener {
  return {
    message: (data) => to.send(data),
    closing: () => undefined,
    ended: ({ code, reason, error }) => {
      if (code === ABNORMAL) to.abort(error ?? new Error("the other connection broke"));
      else to.close(code, reason);
    },
  };
}

/** Why a connection breaks whose peer does not take what is sent. */
export function tooMuchWaits(): MeshError {
  return new MeshError(
    "TooLarge",
    `messages that take more than ${MAX_BUFFERED} bytes wait to be sent: the other side does not take them`,
  );
}
