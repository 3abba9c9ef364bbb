import { codeNumber, MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";
import { fromHex, toBase64Url } from "../codec/hex.ts";
import { problem } from "../codec/problem.ts";
import { encodeRpcServerConfig } from "../codec/rpc.ts";
import { Logger, type LogOptions } from "../driver/log.ts";
import { checkName } from "../driver/options.ts";
import { randomBytes } from "../driver/random.ts";
import type { Handler } from "../driver/serve.ts";
import { platformTimers, type Timers } from "../driver/timers.ts";
import { TrustedProxies } from "../transports/forwarded.ts";
import { asksForWebSocket } from "../websocket/handshake.ts";
import { provenCaller } from "./caller.ts";
import { instantiate } from "./engine.ts";
import { Exchanges } from "./exchanges.ts";
import { HttpService, type HttpServiceOptions } from "./fetch/service.ts";
import { checkHandler, type RpcHandler } from "./handler.ts";
import { HttpBinding } from "./http-binding.ts";
import { KEYS_PATH, SharedTicketKeys } from "./key-sharing.ts";
import { checkRouterKey, TicketKeys } from "./keys.ts";
import { HTTP_DATAGRAM, UDP_DATAGRAM } from "./limits.ts";
import { networkBytes } from "./network.ts";
import type { RpcPlatform, UdpPlace, UdpPort } from "./platform.ts";
import { RpcReplica, type ServerPort } from "./serving.ts";
import { TAKES_TICKET, TICKET_FIELD } from "./session-call.ts";
import { type MeshHandler, SessionCalls } from "./session-service.ts";
import { CARRIES_FIELD, checkAddresses, encodeTicket, HTTP, TICKET_PATH } from "./ticket.ts";
import { type Upgrade, WebSocketBinding } from "./websocket-binding.ts";

/** Seconds for which tickets are good unless the options say otherwise. */
const TICKET_LIFE_S = 3600;
const MAX_TICKET_LIFE_S = 30 * 86_400;
const ENTROPY_BYTES = 32;
const NO_KEY: Uint8Array = /* @__PURE__ */ new Uint8Array();

/** How a server of the RPC is made. */
export interface RpcServerOptions extends LogOptions {
  /** The service. */
  readonly service: string;
  /** Name of the network; of a closed one the full name, `NAME@KEY`. */
  readonly network: string;
  /** The secret that the replicas of the service share, 32 bytes, or what shares one over the mesh: `shareTicketKeys`. Secret. */
  readonly ticketKey: Uint8Array | SharedTicketKeys;
  /** Carries calls out; in its place a service of HTTP has `fetch`. */
  readonly handler?: RpcHandler | undefined;
  /**
   * Answers HTTP by RPC, and what `tickets` is asked for in sessions of the mesh, as a handler of `mesh.serve` does. Requests of GET, HEAD,
   * OPTIONS, PUT and DELETE are the calls that `idempotent` is about.
   */
  readonly fetch?: Handler | undefined;
  /**
   * Who may make which requests of HTTP by RPC, as `allow` of `mesh.serve`, which decides over sessions alone: where only that one is given,
   * there are no tickets.
   */
  readonly allow?: HttpServiceOptions["allow"];
  /** What `fetch` is told by RPC of its platform; nothing unless given. */
  readonly context?: HttpServiceOptions["context"];
  /**
   * Whether calls may be carried out by each replica once: no round trip before the first one, and a copy of a datagram may be carried out
   * by another replica for some seconds. Without this each call is bound to one replica.
   */
  readonly idempotent?: boolean | undefined;
  /**
   * Whether each instance counts as another replica, for isolates that keep nothing and of which the next request may reach another one;
   * only with `idempotent`. Without this the server carries out nothing that was sent before it started.
   */
  readonly stateless?: boolean | undefined;
  /** Seconds for which tickets are good; an hour unless given. */
  readonly ticketLife_s?: number | undefined;
  /** The secret that the service's routers share with its replicas, 32 bytes: calls that they pass on are taken over UDP. Secret. */
  readonly routerKey?: Uint8Array | undefined;
  /** Proxies in front of `fetch`, as `trustedProxies` of a mesh. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** Timers of the host; the platform's unless given. */
  readonly timers?: Timers | undefined;
}

/** Where a request over HTTP comes from, as the platform tells. */
export interface RpcOrigin {
  /** The client's address, where the platform vouches for one in a header such as `cf-connecting-ip`. */
  readonly address?: string | undefined;
  /** The client's or a proxy's address, as Deno has it. */
  readonly remoteAddr?: { readonly hostname?: string | undefined } | undefined;
  /** The request as Node has it, with the client's or a proxy's address. */
  readonly incoming?: { readonly socket: { readonly remoteAddress?: string | undefined } } | undefined;
  /** Accepts the WebSocket that the request asks for, where the platform cannot do so in a fetch handler. */
  readonly upgrade?: Upgrade | undefined;
}

/** What answers calls over streams: HTTP and WebSockets. */
interface Streams {
  readonly replica: RpcReplica;
  readonly http: HttpBinding;
  readonly sockets: WebSocketBinding;
}

/** A replica of a service. `createRpcServer` makes one. */
export class RpcServer implements Disposable {
  readonly #platform: RpcPlatform;
  readonly #options: RpcServerOptions;
  readonly #keys: TicketKeys | SharedTicketKeys;
  readonly #unfollow: (() => void) | undefined;
  readonly #routerKey: Uint8Array;
  readonly #timers: Timers;
  readonly #logger: Logger;
  readonly #proxies: TrustedProxies;
  readonly #handler: RpcHandler;
  /** Answers calls in sessions; `undefined` where the service carries HTTP. */
  readonly #sessionCalls: SessionCalls | undefined;
  readonly #http: HttpService | undefined;
  readonly #replicas: Set<RpcReplica> = new Set();
  readonly #ports: Set<UdpPort> = new Set();
  #streams: Streams | undefined;
  #isClosed = false;

  constructor(options: RpcServerOptions, platform: RpcPlatform) {
    checkServerOptions(options);
    this.#platform = platform;
    this.#options = options;
    const { ticketKey } = options;
    const isShared = ticketKey instanceof SharedTicketKeys;
    this.#keys = isShared ? ticketKey : new TicketKeys(ticketKey);
    this.#unfollow = isShared ? ticketKey.follow((secrets) => this.#tell(secrets)) : undefined;
    this.#routerKey = options.routerKey === undefined ? NO_KEY : checkRouterKey(options.routerKey);
    this.#timers = options.timers ?? platformTimers;
    this.#logger = new Logger(options.log, options.logLevel);
    this.#proxies = new TrustedProxies(options.trustedProxies);
    this.#http = this.#httpOf(options);
    const { handler = this.#http?.handler } = options;
    checkHandler(handler);
    this.#handler = handler;
    this.#sessionCalls = this.#http === undefined ? new SessionCalls({ ...options, handler }) : undefined;
  }

  /** Answers calls over HTTP, and over WebSocket but in Node, where `attach` does: a fetch handler for the URL that tickets name. */
  async fetch(request: Request, origin: RpcOrigin = {}): Promise<Response> {
    const { http, sockets } = this.#streams ?? (await this.#startStreams());
    const address = this.#addressOf(request, origin);
    const upgrade = origin.upgrade ?? this.#platform.upgrade;
    if (upgrade !== undefined && asksForWebSocket(request.method, request.headers.get("upgrade")))
      return sockets.accept(request, address, upgrade);
    return http.handle(request, address);
  }

  /** Answers calls over UDP. Resolves when the port is bound. */
  async listenUdp(place: UdpPlace): Promise<{ readonly address: string }> {
    const { udp } = this.#platform;
    if (udp === undefined)
      throw new MeshError("BadConfig", "there is no UDP on this platform: serve calls over HTTP");
    let replica: RpcReplica | undefined;
    const port = await udp.bind(place, (source, bytes) => replica?.push({ type: "Datagram", source, bytes }));
    try {
      replica = await this.#start(port, UDP_DATAGRAM, false);
    } catch (error) {
      port.close();
      throw error;
    }
    this.#ports.add(port);
    return { address: port.address };
  }

  /**
   * What issues tickets to callers from the mesh, and answers their calls in sessions, to be served under the service's name:
   * `mesh.serve(service, server.tickets(address))`.
   * The addresses, up to four, are where they reach this server, the preferred one first: `IP:port` of UDP, or a URL of `https` or `wss`.
   * A caller takes the first that it can use. Ticket keys that are shared are given to other replicas there.
   */
  tickets(...addresses: readonly string[]): MeshHandler {
    checkAddresses(addresses);
    return async (request, context) => {
      if (this.#isClosed) return problem(503);
      const { pathname } = new URL(request.url);
      if (pathname === KEYS_PATH && this.#keys instanceof SharedTicketKeys) {
        return this.#keys.fetch(request, context);
      }
      if (this.#http !== undefined && pathname !== TICKET_PATH) return this.#http.answer(request, context);
      if (this.#http?.lacksAllow(request, context) === true) return this.#withoutAllow();
      return this.#answer(request, provenCaller(request, context), addresses);
    };
  }

  /**
   * Answers a request of the mesh, as `tickets` does, of a peer whose id, 64 hex digits, was proven otherwise: in the entrypoint of a
   * `MeshNode` by `ctx.props`, if the assurance is "session". Shares no ticket keys.
   */
  async answerPeer(request: Request, caller: string, ...addresses: readonly string[]): Promise<Response> {
    fromHex(caller, 32, "caller");
    checkAddresses(addresses);
    if (this.#http?.lacksAllow(request) === true) return this.#withoutAllow();
    return this.#isClosed ? problem(503) : this.#answer(request, caller, addresses);
  }

  /**
   * Issues a ticket, as `tickets` does, to a peer whose id, 64 hex digits, was proven otherwise: whoever has it calls as that peer.
   * Secret.
   */
  async issueTicket(caller: string, ...addresses: readonly string[]): Promise<Uint8Array<ArrayBuffer>> {
    const peer = fromHex(caller, 32, "caller");
    checkAddresses(addresses);
    const [replica = (await this.#startStreams()).replica] = this.#replicas;
    return encodeTicket(await replica.issue(peer), addresses);
  }

  /** Replaces all ticket keys: tickets that are out open nothing any more, but for sessions that this replica has open with them. */
  async setTicketKey(ticketKey: Uint8Array): Promise<void> {
    const keys = this.#ownKeys();
    keys.replace(ticketKey);
    await keys.derive();
    this.#tell(keys.bytes);
  }

  /**
   * Makes the next ticket key the current one, and erases the one before the current one: what was sealed under it stays secret from then
   * on even if this replica is captured. All replicas should do so at the same time, no more often than tickets live.
   */
  async rotateTicketKeys(): Promise<void> {
    const keys = this.#ownKeys();
    await keys.rotate();
    this.#tell(keys.bytes);
  }

  /** Gives up all calls, erases the keys and gives ports back. */
  close(): void {
    this.#isClosed = true;
    this.#http?.[Symbol.dispose]();
    this.#streams?.sockets.close();
    for (const replica of this.#replicas) replica.close();
    for (const port of this.#ports) port.close();
    this.#replicas.clear();
    this.#ports.clear();
    this.#unfollow?.();
    if (this.#keys instanceof TicketKeys) this.#keys.erase();
    this.#routerKey.fill(0);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #httpOf({ service, fetch, allow, context, stateless = false }: RpcServerOptions): HttpService | undefined {
    const [timers, logger] = [this.#timers, this.#logger];
    if (fetch === undefined) return undefined;
    return new HttpService({ service, fetch, allow, context, timers, logger, isLasting: !stateless });
  }

  /** Gives out no ticket that would lead past `allow` of `mesh.serve`. */
  #withoutAllow(): Response {
    const { service } = this.#options;
    const text = `${service} has allow in mesh.serve and not in createRpcServer: it gives out no tickets`;
    this.#logger.log("error", text, codeNumber("BadConfig"));
    return problem(404);
  }

  /** Answers a request for a ticket or a call, of a peer if one was proven. */
  async #answer(
    request: Request,
    caller: string | undefined,
    addresses: readonly string[],
  ): Promise<Response> {
    if (new URL(request.url).pathname !== TICKET_PATH) return this.#answerCall(request, caller, addresses);
    if (request.method !== "POST") return new Response(null, { status: 405, headers: { allow: "POST" } });
    if (caller === undefined) return new Response(null, { status: 403 });
    const ticket = await this.#ticketFor(caller, addresses);
    if (ticket === undefined) return new Response(null, { status: 503, headers: { "retry-after": "1" } });
    const carries = this.#http === undefined ? {} : { [CARRIES_FIELD]: HTTP };
    return new Response(ticket, { headers: { "cache-control": "no-store", ...carries } });
  }

  /** Answers a call, and adds a ticket to the answer if the caller takes one. It is issued last: its age counts from when it comes. */
  async #answerCall(
    request: Request,
    caller: string | undefined,
    addresses: readonly string[],
  ): Promise<Response> {
    if (this.#sessionCalls === undefined) return problem(404);
    const response = await this.#sessionCalls.answer(request, caller);
    const takesTicket = request.headers.get(TICKET_FIELD) === TAKES_TICKET;
    if (response.status !== 200 || caller === undefined || !takesTicket) return response;
    const ticket = await this.#ticketFor(caller, addresses);
    if (ticket === undefined) return response;
    response.headers.set(TICKET_FIELD, toBase64Url(ticket));
    ticket.fill(0);
    return response;
  }

  async #ticketFor(
    caller: string,
    addresses: readonly string[],
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    try {
      return await this.issueTicket(caller, ...addresses);
    } catch (error) {
      if (!(error instanceof MeshError)) throw error;
      this.#logger.log("warn", `no ticket was issued: ${error.message}`, error.code);
      return undefined;
    }
  }

  #ownKeys(): TicketKeys {
    if (this.#keys instanceof TicketKeys) return this.#keys;
    throw new MeshError(
      "BadConfig",
      "the ticket keys are shared over the mesh: they rotate by themselves, and renew replaces them",
    );
  }

  #tell(secrets: Uint8Array): void {
    for (const replica of this.#replicas) {
      const copy = secrets.slice();
      const wipe = (): unknown => copy.fill(0);
      if (!replica.push({ type: "SetTicketKeys", secrets: copy }, wipe)) wipe();
    }
    secrets.fill(0);
  }

  #addressOf(request: Request, { address, remoteAddr, incoming }: RpcOrigin): string {
    if (address !== undefined) return address;
    const peer = remoteAddr?.hostname ?? incoming?.socket.remoteAddress ?? "";
    return this.#proxies.source(peer, (name) => request.headers.get(name));
  }

  /** Starts it for the first request. In Workers a request may not wait for what another one began, so that two may do so at a time. */
  async #startStreams(): Promise<Streams> {
    const bound: { replica?: RpcReplica } = {};
    const exchanges = new Exchanges((input, stepped) => bound.replica?.push(input, stepped) ?? false);
    const parts = { timers: this.#timers, exchanges };
    const compiled = await this.#platform.module();
    const instance = await instantiate(compiled);
    await this.#keys.derive();
    if (this.#streams !== undefined) return this.#streams;
    const replica = this.#replica(compiled, instance, exchanges, HTTP_DATAGRAM, true);
    bound.replica = replica;
    this.#streams = { replica, http: new HttpBinding(parts), sockets: new WebSocketBinding(parts) };
    return this.#streams;
  }

  async #start(port: ServerPort, datagramBytes: number, streams: boolean): Promise<RpcReplica> {
    const compiled = await this.#platform.module();
    await this.#keys.derive();
    return this.#replica(compiled, await instantiate(compiled), port, datagramBytes, streams);
  }

  #replica(
    module: WebAssembly.Module,
    instance: Awaited<ReturnType<typeof instantiate>>,
    port: ServerPort,
    datagramBytes: number,
    streams: boolean,
  ): RpcReplica {
    if (this.#isClosed) throw new MeshError("Cancelled", "the server of the RPC was closed");
    const { service } = this.#options;
    const handler = this.#handler;
    const [timers, logger] = [this.#timers, this.#logger];
    const config = (): Uint8Array => this.#config(datagramBytes, streams);
    const replica = new RpcReplica(instance, { module, timers, logger, service, handler, config, port });
    this.#replicas.add(replica);
    return replica;
  }

  #config(datagramBytes: number, streams: boolean): Uint8Array {
    const {
      network,
      service,
      idempotent = false,
      stateless = false,
      ticketLife_s = TICKET_LIFE_S,
    } = this.#options;
    const ticketSecrets = this.#keys.bytes;
    const config = encodeRpcServerConfig({
      network: networkBytes(network),
      service: utf8(service),
      ticketSecrets,
      entropy: randomBytes(ENTROPY_BYTES),
      datagramBytes,
      streams,
      ticketLife_s,
      idempotent,
      notBefore_ms: stateless ? 0 : Date.now(),
      // What a router passes on comes over UDP.
      routerSecret: streams ? NO_KEY : this.#routerKey,
    });
    ticketSecrets.fill(0);
    return config;
  }
}

function checkServerOptions({
  network,
  service,
  handler,
  fetch,
  idempotent,
  stateless,
  ticketKey,
  ticketLife_s = 1,
}: RpcServerOptions): void {
  checkName(service);
  networkBytes(network);
  if (fetch !== undefined) checkHandler(fetch);
  if (handler !== undefined && fetch !== undefined) {
    throw new MeshError("BadConfig", "a server has handler or fetch, and not both");
  }
  if (stateless === true && idempotent !== true) {
    throw new MeshError(
      "BadConfig",
      "a stateless server takes idempotent calls only: set idempotent, or keep the server in a Durable Object or process",
    );
  }
  if (!Number.isInteger(ticketLife_s) || ticketLife_s < 1 || ticketLife_s > MAX_TICKET_LIFE_S) {
    throw new MeshError("BadConfig", `ticketLife_s is a whole number from 1 to ${MAX_TICKET_LIFE_S}`);
  }
  if (ticketKey instanceof SharedTicketKeys && ticketLife_s > ticketKey.rotation_s) {
    throw new MeshError(
      "BadConfig",
      "ticketLife_s is at most rotation_s: keys that are shared are erased by then",
    );
  }
}
