import { collect } from "../driver/collect.ts";
import { within } from "../driver/deadline.ts";
import type { Timers } from "../driver/timers.ts";
import type { Share } from "./shares.ts";

/** Time for a body to arrive: 1 MiB takes that long at 0.4 Mbit/s. */
const BODY_MS = 20_000;
/** What a body that has begun takes, however little has arrived: platforms have buffers of that size waiting for the rest. */
export const BEGUN_BYTES: number = 64 * 1024;

/** Why a body is not read to its end, as an HTTP status and a text. */
export class BodyError extends Error {
  readonly status: number;

  constructor(status: number, text: string) {
    super(text);
    this.status = status;
  }
}

/** How a body is received. */
export interface Receiving {
  /** Most bytes that it has. */
  readonly most: number;
  /** The part of its source's share that it has, of which `BEGUN_BYTES` are taken. */
  readonly held: Share;
  /** What is said when the share is used up. */
  readonly crowded: string;
  /** Time for it to arrive; 20 seconds unless given. */
  readonly timeout_ms?: number | undefined;
  readonly timers: Timers;
}

/** Receives a body, which is counted while it is read: a length that is announced takes no more from others. */
export function receiveBody({ body }: Request, receiving: Receiving): Promise<Uint8Array> {
  const { most, held, crowded, timeout_ms = BODY_MS, timers } = receiving;
  const late = (): BodyError => new BodyError(408, `the body did not arrive within ${timeout_ms / 1000} s`);
  const tooLong = (): BodyError => new BodyError(413, `a body has at most ${most} bytes`);
  let left = BEGUN_BYTES;
  const take = (bytes: number): void => {
    const more = Math.max(0, bytes - left);
    left = Math.max(0, left - bytes);
    if (!held.grow(more)) throw new BodyError(503, crowded);
  };
  return within({ timeout_ms, late, timers }, async (signal) => {
    try {
      return await collect(body, { most, tooLong, take, signal });
    } catch (error) {
      throw error instanceof BodyError ? error : new BodyError(400, "the body broke off");
    }
  });
}
