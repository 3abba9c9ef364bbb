import { codeNumber, MeshError } from "../codec/code.ts";
import { unlessAborted } from "../driver/deadline.ts";
import { Logger, type LogOptions } from "../driver/log.ts";
import type { Mesh } from "../driver/mesh.ts";
import { checkName } from "../driver/options.ts";
import type { CallOptions } from "../driver/service.ts";
import { MAX_TIMER_MS, platformTimers, type Timers } from "../driver/timers.ts";
import { detach, reasonOf } from "../guard.ts";
import { checkPermitted, parseAddress, type RpcAddress, usableAddress } from "./address.ts";
import type { RpcCallOptions } from "./call-options.ts";
import { type Fetching, fetchByRpc, type RpcFetchInit } from "./fetch/fetch.ts";
import { HttpTickets } from "./fetch/http-tickets.ts";
import { FetchRoutes } from "./fetch/routes.ts";
import { FirstCalls } from "./first-calls.ts";
import { HttpWay } from "./http-way.ts";
import { KeptTickets } from "./kept-tickets.ts";
import { MAX_MESSAGE } from "./limits.ts";
import { Line, type RpcAnswer } from "./line.ts";
import type { RpcPlatform } from "./platform.ts";
import type { SessionCall } from "./session-call.ts";
import { IN_SESSION, type InSession, type RpcTicket, type TicketMesh } from "./ticket.ts";
import { MeshTickets, type RpcTicketSource } from "./ticket-source.ts";
import type { Way, WayHost } from "./way.ts";
import { WebSocketWay } from "./websocket-way.ts";

/** How long a call may take unless its options say otherwise. */
const TIMEOUT_MS = 30_000;
const MAX_TIMEOUT_MS = 0xffff_ffff;
/** How long a service may take to issue a ticket. */
const TICKET_TIMEOUT_MS = 30_000;
/** Services whose servers are remembered. */
const MAX_SERVICES = 4096;

/** What of a mesh a client needs. */
export interface RpcMesh extends TicketMesh {
  /** Whether private addresses may be dialled. */
  readonly allowPrivate?: boolean;
  /** Timers of the host. */
  readonly timers?: Timers;
  /** Has its requests take another way. */
  readonly divert?: Mesh["divert"];
}

/** Where a client gets its tickets: the services issue them in a mesh, or another source does, such as `preSharedKey`. */
export type RpcTicketOptions =
  | {
      /** The mesh in which services issue tickets. */
      readonly mesh: RpcMesh;
      /** How the providers of services are found in the mesh, such as `{ unowned: true }`. */
      readonly lookup?: CallOptions | undefined;
      /**
       * Whether `fetch` of the mesh goes by RPC where that is the best path: to a service that carries HTTP and with which no session is
       * up, if the request is at hand with a body of at most 64 KiB. One client of a mesh can do so.
       */
      readonly forFetch?: boolean | undefined;
      readonly tickets?: undefined;
    }
  | {
      /** Where tickets come from without a mesh. */
      readonly tickets: RpcTicketSource;
      readonly mesh?: undefined;
      readonly lookup?: undefined;
      readonly forFetch?: undefined;
    };

/** How a client of the RPC is made. */
export type RpcClientOptions = RpcTicketOptions & RpcClientSettings;

/** What may be set of a client whatever its tickets. */
export interface RpcClientSettings extends LogOptions {
  /** Whether private addresses may be dialled; what the mesh allows unless given, and else not. */
  readonly allowPrivate?: boolean | undefined;
  /** Whether all calls are forward secret, as the option of a call says; not unless given. */
  readonly forwardSecret?: boolean | undefined;
}

/** A ticket for one way, and where it is used. */
interface PlacedTicket {
  readonly grant: Uint8Array;
  readonly address: RpcAddress;
}

/** Calls services by RPC. `createRpcClient` makes one. */
export class RpcClient implements Disposable {
  readonly #platform: RpcPlatform;
  readonly #source: RpcTicketSource;
  readonly #allowPrivate: boolean;
  readonly #isForwardSecret: boolean;
  readonly #timers: Timers;
  readonly #logger: Logger;
  readonly #firstCalls: FirstCalls;
  readonly #lines: Map<RpcAddress["way"], Promise<Line>> = new Map();
  readonly #kept: KeptTickets = new KeptTickets();
  /** Where services are called, as their latest tickets say. */
  readonly #servers: Map<string, Promise<RpcAddress | InSession>> = new Map();
  readonly #closing: AbortController = new AbortController();
  readonly #fetching: Fetching;
  readonly #undivert: (() => void) | undefined;

  constructor(options: RpcClientOptions, platform: RpcPlatform) {
    const { mesh, allowPrivate = mesh?.allowPrivate ?? false, forwardSecret = false } = options;
    this.#platform = platform;
    this.#source = sourceOf(options);
    this.#allowPrivate = allowPrivate;
    this.#isForwardSecret = forwardSecret;
    this.#timers = mesh?.timers ?? platformTimers;
    this.#logger = new Logger(options.log, options.logLevel);
    const prepare = (service: string, signal = this.#closing.signal): Promise<unknown> =>
      this.#serverOf(service, signal);
    this.#fetching = { client: this, prepare, tickets: new HttpTickets(), timers: this.#timers };
    this.#undivert = options.forFetch === true ? this.#divert(options) : undefined;
    this.#firstCalls = new FirstCalls(this.#source, this.#logger);
  }

  /**
   * Calls a service by name. Fails with a `MeshError`: `OutcomeUnknown` if a call that is not idempotent may have been carried out,
   * `TimedOut`, what the server refuses, and why there is no ticket; and with the signal's reason if that aborts.
   */
  async call(service: string, payload: Uint8Array, options: RpcCallOptions = {}): Promise<RpcAnswer> {
    const name = checkName(service);
    const {
      timeout_ms = TIMEOUT_MS,
      idempotent: isIdempotent = false,
      signal,
      namesReplica = false,
    } = options;
    if (!Number.isInteger(timeout_ms) || timeout_ms < 1 || timeout_ms > MAX_TIMEOUT_MS) {
      throw new MeshError("BadConfig", `timeout_ms is a whole number from 1 to ${MAX_TIMEOUT_MS}`);
    }
    if (!(payload instanceof Uint8Array)) throw new MeshError("BadConfig", "the request is a Uint8Array");
    if (payload.length > MAX_MESSAGE) {
      throw new MeshError("TooLarge", `a request has at most ${MAX_MESSAGE} bytes (got ${payload.length})`);
    }
    signal?.throwIfAborted();
    this.#checkOpen();
    // It may be changed as soon as this returns.
    const copy = payload.slice();
    const deadline_ms = performance.now() + timeout_ms;
    const late = AbortSignal.timeout(Math.min(timeout_ms, MAX_TIMER_MS));
    const ending = AbortSignal.any([...(signal === undefined ? [] : [signal]), late, this.#closing.signal]);
    const given = this.#given(options);
    const left_ms = (): number => Math.max(1, Math.trunc(deadline_ms - performance.now()));
    const inSession = (): Promise<RpcAnswer> => this.#inSession(sessionCall());
    const sessionCall = (): SessionCall => ({
      service: name,
      payload: copy,
      isIdempotent,
      timeout_ms: left_ms(),
      signal: ending,
      late,
      takesTicket: false,
    });
    try {
      if (given === undefined && !namesReplica && !this.#servers.has(name)) {
        const answer = await this.#firstCalls.make(sessionCall(), (ticket) => this.#keep(name, ticket));
        if (answer !== undefined) return answer;
      }
      const address = given ?? (await this.#serverOf(name, ending));
      if (address === IN_SESSION) return await inSession();
      const line = await unlessEnded(this.#line(address.way), ending);
      const options = { payload: copy, isIdempotent, timeout_ms: left_ms(), signal };
      const answer = line.call({ service: name, address, ...options });
      return await (given === undefined ? this.#unlessUnticketed(name, answer, inSession) : answer);
    } catch (error) {
      // The next call learns from a ticket where the service is now.
      if (given === undefined && hasNoServer(error)) this.#servers.delete(name);
      throw error;
    }
  }

  /**
   * Sends a request to `https://NAME.mesh/path` by RPC and resolves with the answer, like `fetch`; the service must carry HTTP. Fails as
   * `call` does.
   */
  async fetch(input: Request | URL | string, init: RpcFetchInit = {}): Promise<Response> {
    this.#checkOpen();
    if (this.#isForwardSecret)
      throw new MeshError("BadConfig", "mesh.fetch is what is forward secret: use that");
    return fetchByRpc(this.#fetching, input, init);
  }

  /** Gives up all calls and closes sockets. */
  close(): void {
    this.#undivert?.();
    this.#closing.abort(new MeshError("Cancelled", "the client of the RPC was closed"));
    for (const line of this.#lines.values())
      detach(
        "closing",
        line.then((line) => line.close()),
      );
    this.#lines.clear();
    this.#servers.clear();
    this.#kept.clear();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #divert({ mesh, lookup = {} }: RpcClientOptions): () => void {
    if (mesh?.divert !== undefined && !this.#isForwardSecret)
      return mesh.divert(new FetchRoutes(this.#fetching), lookup);
    throw new MeshError("BadConfig", "forFetch needs a mesh of this process, and is not forward secret");
  }

  #checkOpen(): void {
    this.#closing.signal.throwIfAborted();
  }

  /** Returns where a call goes if that is not for the service to say. */
  #given({
    server,
    forwardSecret = this.#isForwardSecret,
  }: RpcCallOptions): RpcAddress | InSession | undefined {
    if (server === undefined) return forwardSecret ? IN_SESSION : undefined;
    if (!forwardSecret) return this.#permitted(parseAddress(server));
    throw new MeshError(
      "BadConfig",
      "a call that is forward secret goes to a provider in the mesh: leave out server",
    );
  }

  async #inSession(call: SessionCall): Promise<RpcAnswer> {
    const outcome = await this.#source.call?.(call);
    if (outcome !== undefined && "notTaken" in outcome) throw outcome.notTaken;
    if (outcome !== undefined) return outcome.answer;
    throw new MeshError("BadConfig", `calls of ${call.service} travel in a mesh: make the client with one`);
  }

  /** Makes a call in a session that has waited in vain for a ticket: its service gives out none any more. */
  async #unlessUnticketed(
    service: string,
    answer: Promise<RpcAnswer>,
    inSession: () => Promise<RpcAnswer>,
  ): Promise<RpcAnswer> {
    try {
      return await answer;
    } catch (error) {
      const isUnticketed = error instanceof MeshError && error.name === "NoProvider";
      if (isUnticketed && (await this.#servers.get(service)) === IN_SESSION) return inSession();
      throw error;
    }
  }

  /** Keeps a ticket that came with an answer, unless another one came first. Calls go on in sessions if its server cannot be reached. */
  #keep(service: string, ticket: RpcTicket | InSession): void {
    if (this.#closing.signal.aborted || this.#servers.has(service)) return;
    let place: RpcAddress | InSession = IN_SESSION;
    try {
      if (ticket !== IN_SESSION) place = this.#use(service, ticket);
    } catch (error) {
      const reason = reasonOf(error);
      this.#logger.log("warn", `calls of ${service} go on in sessions of the mesh: ${reason}`);
    }
    this.#remember(service, Promise.resolve(place));
  }

  /** Gives a ticket to the line of its way once there is one, and returns where it is used. */
  #use(service: string, { grant, addresses }: RpcTicket): RpcAddress {
    const address = usableAddress(addresses, (address) => this.#checkUsable(address));
    const line = this.#lines.get(address.way);
    if (line === undefined) this.#kept.keep(service, address.way, grant);
    else
      detach(
        "a ticket",
        line.then((line) => line.useTicket(service, grant)),
      );
    return address;
  }

  #permitted(address: RpcAddress): RpcAddress {
    checkPermitted(address, this.#allowPrivate);
    return address;
  }

  /** Returns where a service is called: as its first ticket says, which the call that asks for it brings to the way that it names. */
  #serverOf(service: string, signal: AbortSignal): Promise<RpcAddress | InSession> {
    const known = this.#servers.get(service);
    if (known !== undefined) return unlessEnded(known, signal);
    const first = this.#ticket(service).then(async (ticket) => {
      if (ticket === IN_SESSION) return ticket;
      (await this.#line(ticket.address.way)).useTicket(service, ticket.grant);
      return ticket.address;
    });
    this.#remember(service, first);
    return unlessEnded(first, signal);
  }

  #remember(service: string, address: Promise<RpcAddress | InSession>): void {
    const [oldest] = this.#servers.keys();
    if (this.#servers.size >= MAX_SERVICES && oldest !== undefined) this.#servers.delete(oldest);
    this.#servers.set(service, address);
    // Another call asks again.
    address.catch(() => {
      if (this.#servers.get(service) === address) this.#servers.delete(service);
    });
  }

  async #ticket(service: string): Promise<PlacedTicket | InSession> {
    const signal = AbortSignal.any([AbortSignal.timeout(TICKET_TIMEOUT_MS), this.#closing.signal]);
    const ticket = await this.#source.ticket(service, signal);
    this.#fetching.tickets.note(service, ticket);
    if (ticket === IN_SESSION) return ticket;
    const { grant, addresses } = ticket;
    return { grant, address: usableAddress(addresses, (address) => this.#checkUsable(address)) };
  }

  #checkUsable(address: RpcAddress): void {
    this.#permitted(address);
    if (address.way === "udp" && this.#platform.udp === undefined) throw noUdp();
  }

  /** Returns another ticket for a service that has issued one. */
  async #renewed(service: string): Promise<Uint8Array> {
    const ticket = await this.#ticket(service);
    this.#remember(service, Promise.resolve(ticket === IN_SESSION ? ticket : ticket.address));
    if (ticket !== IN_SESSION) return ticket.grant;
    throw new MeshError("NoProvider", "its calls travel in sessions of the mesh from now on");
  }

  /** Tickets are of one way: two instances that share one would seal different bytes with one nonce. */
  #line(way: RpcAddress["way"]): Promise<Line> {
    const known = this.#lines.get(way);
    if (known !== undefined) return known;
    this.#checkOpen();
    const { udp, module } = this.#platform;
    if (way === "udp" && udp === undefined) throw noUdp();
    const line = Line.open({
      module: module(),
      timers: this.#timers,
      logger: this.#logger,
      way: (host) => this.#way(way, host),
      ticket: (service) => this.#renewed(service),
      kept: this.#kept.take(way),
    });
    this.#lines.set(way, line);
    line.catch(() => this.#lines.delete(way));
    return line;
  }

  #way(way: RpcAddress["way"], host: WayHost): Way {
    const { udp, fetch, socket } = this.#platform;
    const parts = { host, timers: this.#timers, logger: this.#logger };
    const permission = { allowPrivate: this.#allowPrivate };
    if (way === "udp" && udp !== undefined) return udp.way(host, permission);
    if (way === "websocket") return new WebSocketWay({ ...parts, find: socket(permission) });
    return new HttpWay({ ...parts, fetch: fetch(permission) });
  }
}

/** Waits as long as somebody waits for the call. */
async function unlessEnded<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await unlessAborted(promise, signal);
  } catch (error) {
    const isLate = error instanceof DOMException && error.name === "TimeoutError" && signal.reason === error;
    throw isLate ? new MeshError("TimedOut", "there was no ticket in time", { cause: error }) : error;
  }
}

function sourceOf({ mesh, lookup = {}, tickets }: RpcClientOptions): RpcTicketSource {
  if (typeof mesh?.fetch === "function" && tickets === undefined) return new MeshTickets(mesh, lookup);
  if (typeof tickets?.ticket === "function" && mesh === undefined) return tickets;
  throw new MeshError(
    "BadConfig",
    "give either mesh, in which services issue tickets, or tickets, such as preSharedKey()",
  );
}

function noUdp(): MeshError {
  return new MeshError(
    "NoRoute",
    "there is no UDP on this platform: the service must be served over HTTP, too",
  );
}

function hasNoServer(error: unknown): boolean {
  const codes = ["TimedOut", "OutcomeUnknown", "ForbiddenAddress", "NoService"] as const;
  return error instanceof MeshError && codes.map(codeNumber).includes(error.code);
}
