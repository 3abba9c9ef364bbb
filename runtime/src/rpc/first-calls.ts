import type { Logger } from "../driver/log.ts";
import type { RpcAnswer } from "./line.ts";
import type { SessionCall } from "./session-call.ts";
import { type InSession, type RpcTicket, ticketInField } from "./ticket.ts";
import type { RpcTicketSource } from "./ticket-source.ts";

/** Calls of services whose tickets a client does not have yet: they travel in sessions, and one at a time of each service brings a ticket. */
export class FirstCalls {
  readonly #source: RpcTicketSource;
  readonly #logger: Logger;
  readonly #bringing: Set<string> = new Set();

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
    const takesTicket = !this.#bringing.has(service);
    if (takesTicket) this.#bringing.add(service);
    try {
      const outcome = await this.#source.call?.({ ...call, takesTicket });
      if (outcome === undefined || "notTaken" in outcome) return undefined;
      const ticket = this.#ticketIn(service, outcome.ticket);
      if (ticket !== undefined) brought(ticket);
      return outcome.answer;
    } finally {
      if (takesTicket) this.#bringing.delete(service);
    }
  }

  /** The call was carried out, whatever came with its answer. */
  #ticketIn(service: string, field: string | undefined): RpcTicket | InSession | undefined {
    if (field === undefined) return undefined;
    try {
      return ticketInField(field);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#logger.log("warn", `an answer of ${service} brought what is no ticket: ${reason}`);
      return undefined;
    }
  }
}
