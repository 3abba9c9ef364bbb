import { IN_SESSION, type InSession, type RpcTicket } from "../ticket.ts";

/** Services of which is known that they carry HTTP; beyond that the first is forgotten. */
const MAX_SERVICES = 4096;
/** The life of a ticket, in seconds, ends its grant. */
const LIFE_BYTES = 4;

interface Held {
  readonly life_ms: number;
  /** Until when it is good, on the monotonic clock. */
  readonly end_ms: number;
}

/** The services whose tickets say that they carry HTTP, and how long those tickets are good. */
export class HttpTickets {
  readonly #held: Map<string, Held> = new Map();

  /** Notes a ticket of a service. */
  note(service: string, ticket: RpcTicket | InSession): void {
    this.#held.delete(service);
    // A source other than a mesh does not say it.
    if (ticket === IN_SESSION || ticket.carriesHttp === false) return;
    const { buffer, byteOffset, length } = ticket.grant;
    if (length < LIFE_BYTES) return;
    const life_ms = 1000 * new DataView(buffer, byteOffset, length).getUint32(length - LIFE_BYTES, true);
    const [oldest] = this.#held.keys();
    if (this.#held.size >= MAX_SERVICES && oldest !== undefined) this.#held.delete(oldest);
    this.#held.set(service, { life_ms, end_ms: performance.now() + life_ms });
  }

  /** Notes an answer of a service: one that comes when half of a ticket's life is over brings the next ticket. */
  answered(service: string): void {
    const held = this.#held.get(service);
    if (held === undefined) return;
    const { life_ms, end_ms } = held;
    this.#held.set(service, { life_ms, end_ms: Math.max(end_ms, performance.now() + life_ms / 2) });
  }

  /** Whether a service carries HTTP. */
  has(service: string): boolean {
    return this.#held.has(service);
  }

  /** Whether it does, and its ticket is good. */
  isGood(service: string): boolean {
    return performance.now() < (this.#held.get(service)?.end_ms ?? 0);
  }
}
