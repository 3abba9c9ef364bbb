import { codeNumber, MeshError } from "../codec/code.ts";
import { unlessAborted } from "../driver/deadline.ts";
import { Logger, type LogLevel, type LogSink } from "../driver/log.ts";
import { checkName } from "../driver/options.ts";
import type { CallOptions } from "../driver/service.ts";
import { platformTimers, type Timers } from "../driver/timers.ts";
import { detach } from "../guard.ts";
import { checkPermitted, parseAddress, type RpcAddress } from "./address.ts";
import { HttpWay } from "./http-way.ts";
import { MAX_MESSAGE } from "./limits.ts";
import { Line, type RpcAnswer } from "./line.ts";
import type { RpcPlatform } from "./platform.ts";
import { type RpcTicket, requestTicket, type TicketMesh } from "./ticket.ts";
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
}

/** How a client of the RPC is made. */
export interface RpcClientOptions {
  /** The mesh in which services issue tickets. */
  readonly mesh: RpcMesh;
  /** How the providers of services are found in the mesh, such as `{ unowned: true }`. */
  readonly lookup?: CallOptions | undefined;
  /** Whether private addresses may be dialled; what the mesh allows unless given. */
  readonly allowPrivate?: boolean | undefined;
  /** Where log records go; the console unless given. */
  readonly log?: LogSink | undefined;
  /** The least level that is logged; `warn` unless given. */
  readonly logLevel?: LogLevel | undefined;
}

/** How a call is made. */
export interface RpcCallOptions {
  /** How long to wait for the answer, in milliseconds; 30 seconds unless given. */
  readonly timeout_ms?: number | undefined;
  /** Whether carrying the call out twice does no harm: it then needs no round trip before. */
  readonly idempotent?: boolean | undefined;
  /** Gives the call up, and tells its server. */
  readonly signal?: AbortSignal | undefined;
  /** The replica to call, as `IP:port` or a URL, in place of the one that issued the ticket: any replica opens it. */
  readonly server?: string | undefined;
}

/** Calls services by RPC. `createRpcClient` makes one. */
export class RpcClient implements Disposable {
  readonly #platform: RpcPlatform;
  readonly #mesh: RpcMesh;
  readonly #lookup: CallOptions;
  readonly #allowPrivate: boolean;
  readonly #timers: Timers;
  readonly #logger: Logger;
  readonly #lines: Map<RpcAddress["way"], Promise<Line>> = new Map();
  /** Where services are called, as their latest tickets say. */
  readonly #servers: Map<string, Promise<RpcAddress>> = new Map();
  readonly #closing: AbortController = new AbortController();

  constructor(options: RpcClientOptions, platform: RpcPlatform) {
    const { mesh, lookup = {}, allowPrivate = mesh?.allowPrivate ?? false } = options;
    if (typeof mesh?.fetch !== "function")
      throw new MeshError("BadConfig", "mesh is what services issue tickets in");
    this.#platform = platform;
    this.#mesh = mesh;
    this.#lookup = lookup;
    this.#allowPrivate = allowPrivate;
    this.#timers = mesh.timers ?? platformTimers;
    this.#logger = new Logger(options.log, options.logLevel);
  }

  /**
   * Calls a service by name. Fails with a `MeshError`: `OutcomeUnknown` if a call that is not idempotent may have been carried out,
   * `TimedOut`, what the server refuses, and why there is no ticket; and with the signal's reason if that aborts.
   */
  async call(service: string, payload: Uint8Array, options: RpcCallOptions = {}): Promise<RpcAnswer> {
    const name = checkName(service);
    const { timeout_ms = TIMEOUT_MS, idempotent: isIdempotent = false, signal } = options;
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
    const late = AbortSignal.timeout(Math.min(timeout_ms, 2 ** 31 - 1));
    const ending = AbortSignal.any([...(signal === undefined ? [] : [signal]), late, this.#closing.signal]);
    const given = options.server === undefined ? undefined : this.#permitted(parseAddress(options.server));
    const address = given ?? (await this.#serverOf(name, ending));
    const line = await unlessEnded(this.#line(address.way), ending);
    const left_ms = Math.max(1, Math.trunc(deadline_ms - performance.now()));
    try {
      return await line.call({
        service: name,
        address,
        payload: copy,
        isIdempotent,
        timeout_ms: left_ms,
        signal,
      });
    } catch (error) {
      // The next call learns from a ticket where the service is now.
      if (given === undefined && hasNoServer(error)) this.#servers.delete(name);
      throw error;
    }
  }

  /** Gives up all calls and closes sockets. */
  close(): void {
    this.#closing.abort(new MeshError("Cancelled", "the client of the RPC was closed"));
    for (const line of this.#lines.values())
      detach(
        "closing",
        line.then((line) => line.close()),
      );
    this.#lines.clear();
    this.#servers.clear();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #checkOpen(): void {
    this.#closing.signal.throwIfAborted();
  }

  #permitted(address: RpcAddress): RpcAddress {
    checkPermitted(address, this.#allowPrivate);
    return address;
  }

  /** Returns where a service is called: as its first ticket says, which the call that asks for it brings to the way that it names. */
  #serverOf(service: string, signal: AbortSignal): Promise<RpcAddress> {
    const known = this.#servers.get(service);
    if (known !== undefined) return unlessEnded(known, signal);
    const first = this.#ticket(service).then(async ({ grant, address }) => {
      (await this.#line(address.way)).useTicket(service, grant);
      return address;
    });
    this.#remember(service, first);
    return unlessEnded(first, signal);
  }

  #remember(service: string, address: Promise<RpcAddress>): void {
    const [oldest] = this.#servers.keys();
    if (this.#servers.size >= MAX_SERVICES && oldest !== undefined) this.#servers.delete(oldest);
    this.#servers.set(service, address);
    // Another call asks again.
    address.catch(() => {
      if (this.#servers.get(service) === address) this.#servers.delete(service);
    });
  }

  async #ticket(service: string): Promise<RpcTicket> {
    const signal = AbortSignal.any([AbortSignal.timeout(TICKET_TIMEOUT_MS), this.#closing.signal]);
    const ticket = await requestTicket(this.#mesh, service, this.#lookup, signal);
    this.#permitted(ticket.address);
    return ticket;
  }

  /** Tickets are of one way: two instances that share one would seal different bytes with one nonce. */
  #line(way: RpcAddress["way"]): Promise<Line> {
    const known = this.#lines.get(way);
    if (known !== undefined) return known;
    this.#checkOpen();
    const { udp, module } = this.#platform;
    if (way === "udp" && udp === undefined) {
      throw new MeshError(
        "NoRoute",
        "there is no UDP on this platform: the service must be served over HTTP, too",
      );
    }
    const line = Line.open({
      module: module(),
      timers: this.#timers,
      logger: this.#logger,
      way: (host) => this.#way(way, host),
      ticket: async (service) => {
        const ticket = await this.#ticket(service);
        this.#remember(service, Promise.resolve(ticket.address));
        return ticket.grant;
      },
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

function hasNoServer(error: unknown): boolean {
  const codes = [codeNumber("TimedOut"), codeNumber("OutcomeUnknown"), codeNumber("ForbiddenAddress")];
  return error instanceof MeshError && codes.includes(error.code);
}
