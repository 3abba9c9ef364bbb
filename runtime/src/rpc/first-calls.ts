import type { Logger } from "../driver/log.ts";
import { reasonOf } from "../guard.ts";
import type { RpcAnswer } from "./line.ts";
import type { SessionCall } from "./session-call.ts";
import { type InSession, type RpcTicket, ticketInField } from "./ticket.ts";
import type { RpcTicketSource } from "./ticket-source.ts";

/** Most of them that travel in sessions at a time, where streams are few and requests hold room: others ask for a ticket first. */
const MAX_RUNNING = 64;
/** How long the call that brings a ticket may take before another one brings one, too: its handler may wait for something. */
const PATIENCE_MS = 1000;

/** Calls of services whose tickets a client does not have yet: they travel in sessions, and one of each service brings a ticket. */
export class FirstCalls {
  readonly #source: RpcTicketSource;
  readonly #logger: Logger;
  /** When the call began that brings the ticket of a service. */
  readonly #bringing: Map<string, number> = new Map();
  #running = 0;

  constructor(source: RpcTicketSource, logger: Logger) {
    this.#source = source;
    this.#logger = logger;
  }

  /** Makes a call, and says which ticket it has brought; `undefined` if the service is to be asked for a ticket first. */
  async make(
    call: SessionCall,
    brought: (ticket: RpcTicket | InSession) => void,
  ): Promise<RpcAnswer | undefined> {
    const { service } = call;
    if (this.#running === MAX_RUNNING) return undefined;
    this.#running++;
    const now_ms = performance.now();
    const takesTicket = now_ms - (this.#bringing.get(service) ?? Number.NEGATIVE_INFINITY) > PATIENCE_MS;
    if (takesTicket) this.#bringing.set(service, now_ms);
    try {
      const outcome = await this.#source.call?.({ ...call, takesTicket });
      if (outcome === undefined || "notTaken" in outcome) return undefined;
      const ticket = this.#ticketIn(service, outcome.ticket);
      if (ticket !== undefined) brought(ticket);
      return outcome.answer;
    } finally {
      this.#running--;
      if (takesTicket && this.#bringing.get(service) === now_ms) this.#bringing.delete(service);
    }
  }

  /** The call was carried out, whatever came with its answer. */
  #ticketIn(service: string, field: string | undefined): RpcTicket | InSession | undefined {
    if (field === undefined) return undefined;
    try {
      return ticketInField(field);
    } catch (error) {
      const reason = reasonOf(error);
      this.#logger.log("warn", `an answer of ${service} brought what is no ticket: ${reason}`);
      return undefined;
    }
  }
}
