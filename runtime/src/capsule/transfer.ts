import { MeshError } from "../codec/code.ts";
import { collect } from "../driver/collect.ts";
import { unlessAborted, within } from "../driver/deadline.ts";
import { platformTimers, type Timer, type Timers } from "../driver/timers.ts";
import { MAX_REQUEST, type RequestPlace, type Room } from "./room.ts";

/** Time for a request to get its source's share and to arrive: 8 MiB take that long at 1.2 Mbit/s, a slow mobile uplink. */
export const ARRIVAL_MS = 60_000;
/** An upload of a file that brings nothing for so long has ended: other places are rare, and its sender only has to go on. */
const UPLOAD_IDLE_MS = 30_000;
/** A download of which nothing is read for so long has ended: a reader may write to a slow disk meanwhile. */
const DOWNLOAD_IDLE_MS = 60_000;

/** A request that has arrived. */
export interface Arrived {
  readonly message: Uint8Array;
  /** Its memory, which is to be released. */
  readonly place: RequestPlace;
}

/**
 * Reads a request to a replica. The bytes that it announces, or the most that it can have, are reserved in its source's share before:
 * one source that sends slowly keeps only itself waiting. Bytes count among those of all sources when they arrive.
 */
export async function receiveRequest(
  room: Room,
  request: Request,
  from: string | undefined,
  timers?: Timers,
): Promise<Arrived> {
  const body = bodyOf(request);
  const announced = announcedBytes(request.headers);
  const bytes = announced ?? MAX_REQUEST;
  const tooLong = (): MeshError =>
    announced === undefined || announced > MAX_REQUEST
      ? new MeshError("TooLarge", `a request to a replica has at most ${MAX_REQUEST} bytes`)
      : new MeshError(
          "BadMessage",
          `the body is longer than the ${announced} bytes that content-length says`,
        );
  if (bytes > MAX_REQUEST) throw refused(body, tooLong());
  let place = room.reserve(from, bytes);
  const late = (): MeshError =>
    place === undefined
      ? new MeshError("TooManyRequests")
      : new MeshError("TimedOut", `the request did not arrive within ${ARRIVAL_MS / 1000} s`);
  return within({ timeout_ms: ARRIVAL_MS, late, signal: request.signal, timers }, async (signal) => {
    try {
      const reserved = place ?? (await room.wait(from, bytes, signal));
      place = reserved;
      const take = (more: number): void => reserved.take(more);
      const message = await collect(body, { most: bytes, tooLong, take, signal });
      reserved.settle();
      return { message, place: reserved };
    } catch (error) {
      place?.release();
      throw refused(body, broken(error));
    }
  });
}

/** The pieces of a file that is uploaded, as they come. */
export async function* receiveFile(request: Request, timers?: Timers): AsyncGenerator<Uint8Array> {
  // Not every platform iterates over a body.
  const reader = bodyOf(request)?.getReader();
  const late = (): MeshError =>
    new MeshError("TimedOut", `nothing of the file arrived for ${UPLOAD_IDLE_MS / 1000} s`);
  const deadline = { timeout_ms: UPLOAD_IDLE_MS, late, signal: request.signal, timers };
  try {
    for (;;) {
      const read = await within(deadline, async (signal) => reader && unlessAborted(reader.read(), signal));
      if (read?.value === undefined) return;
      yield read.value;
    }
  } catch (error) {
    throw broken(error);
  } finally {
    reader?.cancel().catch(() => undefined);
  }
}

/**
 * Gives a file while it is made, and calls `ended` when it was read or nobody reads it any more. Resolves with its first bytes: then it
 * is known that the capsule is there.
 */
export async function sendFile(
  file: AsyncGenerator<Uint8Array<ArrayBuffer>, unknown>,
  ended: () => void,
  timers: Timers = platformTimers,
): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
  const next = async (): ReturnType<typeof file.next> => {
    try {
      const made = await file.next();
      if (made.done === true) ended();
      return made;
    } catch (error) {
      ended();
      throw error;
    }
  };
  let ready: Awaited<ReturnType<typeof next>> | undefined = await next();
  let idle: Timer | undefined;
  const stop = async (): Promise<void> => {
    idle?.cancel();
    ended();
    await file.return(undefined);
  };
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: async (controller) => {
      idle?.cancel();
      const { done, value } = ready ?? (await next());
      ready = undefined;
      if (done === true) return controller.close();
      controller.enqueue(value);
      idle = timers.after(DOWNLOAD_IDLE_MS, () => {
        controller.error(new MeshError("TimedOut", "the file is not read"));
        stop().catch(() => undefined);
      });
    },
    cancel: stop,
  });
}

function bodyOf({ body }: Request): ReadableStream<Uint8Array> | null {
  return body as ReadableStream<Uint8Array> | null;
}

/** Bytes that a request says it has; `undefined` if it does not say so. */
function announcedBytes(headers: Headers): number | undefined {
  const text = headers.get("content-length") ?? "";
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** The error with which a body is refused, which is cancelled if nothing of it was read. */
function refused(body: ReadableStream<Uint8Array> | null, error: MeshError): MeshError {
  if (body?.locked === false) body.cancel(error).catch(() => undefined);
  return error;
}

/** The error of a body that did not arrive. */
function broken(error: unknown): MeshError {
  return error instanceof MeshError
    ? error
    : new MeshError("BadMessage", "the body broke off", { cause: error });
}
