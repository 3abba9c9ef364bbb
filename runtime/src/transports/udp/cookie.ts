import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { COOKIE_LENGTH, type Id } from "./packet.ts";

/** Cookies are of one such span of time; those of the span before count as well. */
const SPAN_MS = 10_000;

/** Where somebody is who asks for a connection. */
export interface Asker {
  /** The IP address. */
  readonly address: string;
  /** The port. */
  readonly port: number;
}

/** Proofs that somebody can be answered at an address, for which nothing is kept. Times are in milliseconds. */
export class Cookies {
  readonly #secret: Uint8Array = randomBytes(32);

  /** A cookie for whoever asks from an address for a connection with this id. */
  make(asker: Asker, id: Id, now: number): Uint8Array {
    return this.#ofSpan(asker, id, spanOf(now));
  }

  /** Whether a cookie was made for them, 20 s ago at most. */
  proves(cookie: Uint8Array, asker: Asker, id: Id, now: number): boolean {
    const span = spanOf(now);
    return [span, span - 1].some((of) => timingSafeEqual(cookie, this.#ofSpan(asker, id, of)));
  }

  #ofSpan({ address, port }: Asker, id: Id, span: number): Uint8Array {
    const mac = createHmac("sha256", this.#secret).update(`${span} ${address} ${port} ${id}`).digest();
    return mac.subarray(0, COOKIE_LENGTH);
  }
}

function spanOf(now: number): number {
  return Math.floor(now / SPAN_MS);
}
