import { MeshError } from "../../codec/code.ts";
import { IDEMPOTENT } from "../../driver/call.ts";
import { unlessAborted, within } from "../../driver/deadline.ts";
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
/** A service whose replica is not there is asked again after this pause, one that carries no HTTP after the second; it doubles up to the longest. */
const FIRST_PAUSE_MS = 15_000;
const ABSENT_PAUSE_MS = 300_000;
const LONGEST_PAUSE_MS = 3_600_000;
/** A replica that has not answered for so long is asked for a sign of life, and for how long one is awaited. */
const SILENCE_MS = 1_000;
const PROBE_MS = 2_000;
/** How long a sign of life counts before a request that must not be sent twice: NATs forget ports after 30 s. */
const HEARD_MS = 30_000;
/** Clocks and timers round: a call may end so much before its time is over. */
const ROUNDING_MS = 5;
/** Errors after which a call may have been carried out, whatever it is; then those of one that is bound to one replica, or idempotent. */
const OPEN: readonly string[] = ["Deadline", "HandlerFailed", "OutcomeUnknown"];
/** A client that is closed cancels its calls, which nobody else has given up. */
const OPEN_BOUND: ReadonlySet<string> = /* @__PURE__ */ new Set([...OPEN, "Cancelled"]);
const OPEN_IDEMPOTENT: ReadonlySet<string> = /* @__PURE__ */ new Set([...OPEN, "TimedOut"]);

/** Requests to a service whose answers have not ended: its replica has room for 32 bodies of a caller. */
const MAX_OPEN = 24;

/** The way to a service by RPC. */
class Route {
  /** Requests whose answers have not ended. */
  open = 0;
  #isOpen = false;
  /** When the replica was heard last, and when the service may be asked again, on the monotonic clock. */
  #heard_ms = 0;
  #next_ms = 0;
  #pause_ms = FIRST_PAUSE_MS;

  /** Whether the replica has shown that it is there. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Whether the replica may be gone. */
  get isSilent(): boolean {
    return performance.now() - this.#heard_ms > HEARD_MS;
  }

  /** Whether the service may be asked for a ticket. */
  get mayAsk(): boolean {
    return performance.now() >= this.#next_ms;
  }

  /** The replica has answered. */
  heard(): void {
    this.#isOpen = true;
    this.#heard_ms = performance.now();
    this.#pause_ms = FIRST_PAUSE_MS;
  }

  /** Closes it, until the service is asked again: at once, or after a pause. */
  close(pauses: boolean, least_ms = 0): void {
    this.#isOpen = false;
    const pause_ms = Math.max(this.#pause_ms, least_ms);
    this.#next_ms = pauses ? performance.now() + pause_ms : 0;
    if (pauses) this.#pause_ms = Math.min(2 * pause_ms, LONGEST_PAUSE_MS);
  }

  /** The service is being asked. */
  ask(): void {
    this.#isOpen = false;
    this.#next_ms = Number.POSITIVE_INFINITY;
  }
}

/** Sends requests of a mesh by RPC, to the services that carry HTTP and whose replica has shown that it is there. */
export class FetchRoutes implements Shortcut {
  readonly #parts: Fetching;
  readonly #routes: Map<string, Route> = new Map();

  constructor(parts: Fetching) {
    this.#parts = parts;
  }

  answered(name: string): void {
    const route = this.#routes.get(name);
    const isKnown = route?.isOpen === true ? this.#parts.tickets.isGood(name) : route?.mayAsk === false;
    if (!isKnown) detach("a route of the RPC", this.#learn(name, route ?? this.#begin(name)));
  }

  async send(request: WholeRequest): Promise<MeshStream | undefined> {
    const { name, method, url, timeout_ms } = request;
    const route = this.#routes.get(name);
    const isReady = route?.isOpen === true && this.#parts.tickets.isGood(name);
    if (!isReady || route.open >= MAX_OPEN || isReserved(new URL(url).pathname)) return undefined;
    const end_ms = performance.now() + timeout_ms;
    // What must not be sent twice is not sent to a replica that may be gone.
    const isDoubtful = !IDEMPOTENT.has(method) && route.isSilent;
    if (isDoubtful && !(await this.#answersInTime(route, request))) return undefined;
    return this.#send(route, request, end_ms);
  }

  #begin(name: string): Route {
    const [oldest] = this.#routes.keys();
    if (this.#routes.size >= MAX_ROUTES && oldest !== undefined) this.#routes.delete(oldest);
    const route = new Route();
    this.#routes.set(name, route);
    return route;
  }

  /** Gets a ticket of a service and finds out whether its replica is there. */
  async #learn(name: string, route: Route): Promise<void> {
    const { prepare, tickets } = this.#parts;
    route.ask();
    const fault = await prepare(name).then(
      () => undefined,
      (error: MeshError) => error.class,
    );
    if (tickets.has(name)) await this.#isThere(name, route);
    else route.close(true, fault === "Unreachable" ? 0 : ABSENT_PAUSE_MS);
  }

  /** The probe goes on when the request does not wait for it any more. */
  #answersInTime(route: Route, { name, timeout_ms, signal }: WholeRequest): Promise<boolean> {
    const late = (): MeshError => new MeshError("Deadline");
    const { timers } = this.#parts;
    return within({ timeout_ms, late, signal, timers }, (ending) =>
      unlessAborted(this.#isThere(name, route), ending),
    );
  }

  async #isThere(name: string, route: Route): Promise<boolean> {
    try {
      await probe(this.#parts.client, name, PROBE_MS);
    } catch {
      route.close(true);
      return false;
    }
    this.#heard(name, route);
    return true;
  }

  async #send(
    route: Route,
    { name, ...request }: WholeRequest,
    end_ms: number,
  ): Promise<MeshStream | undefined> {
    const { client, timers } = this.#parts;
    const isIdempotent = IDEMPOTENT.has(request.method);
    const gone = new AbortController();
    const signals = request.signal === undefined ? [] : [request.signal];
    const signal = AbortSignal.any([...signals, gone.signal]);
    const timeout_ms = Math.max(1, Math.ceil(end_ms - performance.now()));
    const ended = (): void => {
      route.open--;
    };
    const watch = isIdempotent ? new Watch(timers, () => this.#isThere(name, route), gone) : undefined;
    route.open++;
    try {
      const parts = { service: name, timers, ended };
      const stream = await sendExchange(client, { ...request, timeout_ms, signal }, parts);
      this.#heard(name, route);
      return stream;
    } catch (error) {
      ended();
      request.signal?.throwIfAborted();
      if (!(error instanceof MeshError)) throw error;
      const isLate = isIdempotent && performance.now() >= end_ms - ROUNDING_MS;
      // The client gets another ticket for its next call, for which the next request is not to wait.
      if (!gone.signal.aborted) route.close(!isLate);
      const mayBeDone = (isIdempotent ? OPEN_IDEMPOTENT : OPEN_BOUND).has(error.name);
      if (!mayBeDone) return undefined;
      const isCancelled = error.name === "Cancelled";
      const told = isCancelled ? new MeshError("OutcomeUnknown", "", { cause: error }) : error;
      return failedStream(isLate ? new MeshError("Deadline") : told, { service: name, timers });
    } finally {
      watch?.stop();
    }
  }

  #heard(name: string, route: Route): void {
    this.#parts.tickets.answered(name);
    route.heard();
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
