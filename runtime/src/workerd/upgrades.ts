import type { Timer, Timers } from "../driver/timers.ts";
import { TICKET_HEADER } from "../websocket/native.ts";

/** How long a socket is kept for the Worker that asked for it. */
const COLLECT_TIMEOUT_MS = 10_000;

interface Kept {
  readonly response: Response;
  readonly timer: Timer;
}

/**
 * The answers with sockets that services have given, until the Workers that asked collect them: what a method of the object
 * returns cannot hold a socket, but an answer of its `fetch` can. A ticket is random and known to that Worker alone.
 */
export class Upgrades {
  readonly #timers: Timers;
  readonly #kept: Map<string, Kept> = new Map();

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  /** Keeps an answer for whoever has the ticket. */
  keep(ticket: string, response: Response): void {
    const timer = this.#timers.after(COLLECT_TIMEOUT_MS, () => {
      this.#kept.delete(ticket);
      response.webSocket?.accept();
      response.webSocket?.close(1001, "nobody collected the socket");
    });
    this.#kept.set(ticket, { response, timer });
  }

  /** The answer whose ticket the request has. */
  collect(request: Request): Response | undefined {
    const ticket = request.headers.get(TICKET_HEADER) ?? "";
    const kept = this.#kept.get(ticket);
    if (kept === undefined) return undefined;
    this.#kept.delete(ticket);
    kept.timer.cancel();
    return kept.response;
  }
}
