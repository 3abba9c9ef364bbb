import { MeshError } from "../../codec/code.ts";
import { IDEMPOTENT } from "../../driver/call.ts";
import type { Shortcut, WholeRequest } from "../../driver/shortcut.ts";
import type { MeshStream } from "../../driver/streams.ts";
import type { Timer, Timers } from "../../driver/timers.ts";
import { detach } from "../../guard.ts";
import { isReserved } from "../ticket.ts";
import { probe, sendExchange } from "./exchange.ts";
import type { Fetching } from "./fetch.ts";
import { failedStream } from "./pulled-stream.ts";

/** Services whose routes are known; beyond that the one that was learned first is forgotten. */
const MAX_ROUTES = 4096;
/** A service that has no route is asked again after this pause, which doubles up to the longest. */
const FIRST_PAUSE_MS = 15_000;
const LONGEST_PAUSE_MS = 3_600_000;
/** A replica that has not answered for so long is asked for a sign of life, and for how long one is awaited. */
const SILENCE_MS = 1_000;
const PROBE_MS = 2_000;
/** How long a sign of life counts before a request that must not be sent twice: NATs forget ports after 30 s. */
const HEARD_MS = 30_000;
/** Clocks and timers round: a call may end so much before its time is over. */
const ROUNDING_MS = 5;
/** Errors after which a call that is bound to one replica may have been carried out, and those of one that is idempotent. */
const OPEN_BOUND: ReadonlySet<string> = /* @__PURE__ */ new Set([
  "Cancelled",
  "Deadline",
  "HandlerFailed",
  "OutcomeUnknown",
]);
const OPEN_IDEMPOTENT: ReadonlySet<string> = /* @__PURE__ */ new Set([...OPEN_BOUND, "TimedOut"]);

interface Route {
  /** Whether its replica has shown that it is there. */
  readonly isOpen: boolean;
  /** When its replica was heard, or else when the service is asked again, on the monotonic clock. */
  readonly at_ms: number;
  /** The pause after its next failure. */
  readonly pause_ms: number;
}

/** Sends requests of a mesh by RPC, to the services that carry HTTP and whose replica has shown that it is there. */
export class FetchRoutes implements Shortcut {
  readonly #parts: Fetching;
  readonly #routes: Map<string, Route> = new Map();

  constructor(parts: Fetching) {
    this.#parts = parts;
  }

  answered(name: string): void {
    const { isOpen = false, at_ms = 0 } = this.#routes.get(name) ?? {};
    const isKnown = isOpen ? this.#parts.tickets.isGood(name) : performance.now() < at_ms;
    if (!isKnown) detach("a route of the RPC", this.#learn(name));
  }

  async send(request: WholeRequest): Promise<MeshStream | undefined> {
    const { name, method, url } = request;
    const route = this.#routes.get(name);
    const isReady = route?.isOpen === true && this.#parts.tickets.isGood(name);
    if (!isReady || isReserved(new URL(url).pathname)) return undefined;
    const isSilent = performance.now() - route.at_ms > HEARD_MS;
    // What must not be sent twice is not sent to a replica that may be gone.
    if (!IDEMPOTENT.has(method) && isSilent && !(await this.#isThere(name))) return undefined;
    return this.#send(request);
  }

  /** Gets a ticket of a service and finds out whether its replica is there. */
  async #learn(name: string): Promise<void> {
    const { prepare, tickets } = this.#parts;
    this.#set(name, { isOpen: false, at_ms: Number.POSITIVE_INFINITY });
    try {
      await prepare(name);
    } catch {
      return this.#close(name);
    }
    if (!tickets.has(name) || !(await this.#isThere(name))) this.#close(name);
  }

  async #isThere(name: string): Promise<boolean> {
    try {
      await probe(this.#parts.client, name, PROBE_MS);
    } catch {
      this.#close(name);
      return false;
    }
    this.#heard(name);
    return true;
  }

  async #send({ name: service, ...request }: WholeRequest): Promise<MeshStream | undefined> {
    const { client, timers } = this.#parts;
    const isIdempotent = IDEMPOTENT.has(request.method);
    const gone = new AbortController();
    const signal =
      request.signal === undefined ? gone.signal : AbortSignal.any([request.signal, gone.signal]);
    const end_ms = performance.now() + request.timeout_ms - ROUNDING_MS;
    const watch = isIdempotent ? new Watch(timers, () => this.#isThere(service), gone) : undefined;
    try {
      const stream = await sendExchange(client, { ...request, service, signal }, timers);
      this.#heard(service);
      return stream;
    } catch (error) {
      request.signal?.throwIfAborted();
      if (!(error instanceof MeshError)) throw error;
      const isLate = isIdempotent && performance.now() >= end_ms;
      // The client asks for another ticket now, which is not to keep the next request waiting.
      if (isLate) this.#set(service, { isOpen: false, at_ms: 0 });
      else if (!gone.signal.aborted) this.#close(service);
      const mayBeDone = (isIdempotent ? OPEN_IDEMPOTENT : OPEN_BOUND).has(error.name);
      return mayBeDone
        ? failedStream(service, isLate ? new MeshError("Deadline") : error, timers)
        : undefined;
    } finally {
      watch?.stop();
    }
  }

  #heard(name: string): void {
    this.#parts.tickets.answered(name);
    this.#set(name, { isOpen: true, at_ms: performance.now(), pause_ms: FIRST_PAUSE_MS });
  }

  #close(name: string): void {
    const { pause_ms = FIRST_PAUSE_MS } = this.#routes.get(name) ?? {};
    const longer_ms = Math.min(2 * pause_ms, LONGEST_PAUSE_MS);
    this.#set(name, { isOpen: false, at_ms: performance.now() + pause_ms, pause_ms: longer_ms });
  }

  #set(name: string, route: Partial<Route> & Pick<Route, "isOpen" | "at_ms">): void {
    const [oldest] = this.#routes.keys();
    const { pause_ms = FIRST_PAUSE_MS } = this.#routes.get(name) ?? {};
    if (this.#routes.size >= MAX_ROUTES && oldest !== undefined) this.#routes.delete(oldest);
    this.#routes.set(name, { pause_ms, ...route });
  }
}

/** Aborts a request whose replica gives no sign of life while the answer is awaited. */
class Watch {
  readonly #timers: Timers;
  readonly #isThere: () => Promise<boolean>;
  readonly #gone: AbortController;
  #timer: Timer;
  #isOver = false;

  constructor(timers: Timers, isThere: () => Promise<boolean>, gone: AbortController) {
    this.#timers = timers;
    this.#isThere = isThere;
    this.#gone = gone;
    this.#timer = this.#after(SILENCE_MS);
  }

  stop(): void {
    this.#isOver = true;
    this.#timer.cancel();
  }

  #after(pause_ms: number): Timer {
    return this.#timers.after(pause_ms, () => detach("a probe", this.#look(pause_ms)));
  }

  async #look(pause_ms: number): Promise<void> {
    const isThere = await this.#isThere();
    if (this.#isOver) return;
    if (isThere) this.#timer = this.#after(2 * pause_ms);
    else this.#gone.abort(new MeshError("TimedOut", "the replica gives no sign of life"));
  }
}
