import type { RpcAddress } from "./address.ts";

/** Services whose tickets are kept. */
const MAX_TICKETS = 4096;

/** A ticket that came before there was an instance that uses it. */
export interface KeptTicket {
  readonly service: string;
  readonly way: RpcAddress["way"];
  /** Secret. */
  readonly grant: Uint8Array;
  /** When it came: its age counts from then, in microseconds since 1970. */
  readonly came_us: number;
}

/** Tickets that wait for the first call by one, which makes the instance of its way: a client that makes one call needs none. */
export class KeptTickets {
  readonly #byService: Map<string, KeptTicket> = new Map();

  /** Keeps a ticket in place of the one before. */
  keep(service: string, way: RpcAddress["way"], grant: Uint8Array): void {
    this.#drop(service);
    const [oldest] = this.#byService.keys();
    if (this.#byService.size >= MAX_TICKETS && oldest !== undefined) this.#drop(oldest);
    this.#byService.set(service, { service, way, grant, came_us: Date.now() * 1000 });
  }

  /** Gives away those of a way, the oldest first. */
  take(way: RpcAddress["way"]): KeptTicket[] {
    const taken = [...this.#byService.values()].filter((ticket) => ticket.way === way);
    for (const { service } of taken) this.#byService.delete(service);
    return taken;
  }

  /** Erases all. */
  clear(): void {
    for (const service of this.#byService.keys()) this.#drop(service);
  }

  #drop(service: string): void {
    this.#byService.get(service)?.grant.fill(0);
    this.#byService.delete(service);
  }
}
