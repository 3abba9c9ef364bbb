import type { CallOptions } from "../driver/service.ts";
import { callInSession, type SessionCall, type SessionOutcome } from "./session-call.ts";
import { type InSession, type RpcTicket, requestTicket, type TicketMesh } from "./ticket.ts";

/** Where a client gets its tickets. */
export interface RpcTicketSource {
  /** Gets a ticket of a service for one client, or learns that the service takes calls in sessions of the mesh alone. */
  ticket(service: string, signal: AbortSignal): Promise<RpcTicket | InSession>;
  /** Makes a call in a session of the mesh, which brings a ticket if it takes one; left out where there is no mesh. */
  call?(call: SessionCall): Promise<SessionOutcome>;
}

/** Tickets from the providers of a service in a mesh. */
export class MeshTickets implements RpcTicketSource {
  readonly #mesh: TicketMesh;
  readonly #lookup: CallOptions;

  constructor(mesh: TicketMesh, lookup: CallOptions) {
    this.#mesh = mesh;
    this.#lookup = lookup;
  }

  ticket(service: string, signal: AbortSignal): Promise<RpcTicket | InSession> {
    return requestTicket(this.#mesh, service, this.#lookup, signal);
  }

  call(call: SessionCall): Promise<SessionOutcome> {
    return callInSession(this.#mesh, this.#lookup, call);
  }
}
