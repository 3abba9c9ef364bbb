import { problem } from "../../codec/problem.ts";
import { IDEMPOTENT } from "../../driver/call.ts";
import type { Logger } from "../../driver/log.ts";
import {
  type CallContext,
  contextOf,
  Endpoint,
  type Handler,
  isGated,
  issuedContext,
} from "../../driver/serve.ts";
import { checkAllow, type ServeOptions } from "../../driver/service.ts";
import type { Timers } from "../../driver/timers.ts";
import { detach } from "../../guard.ts";
import { Shares } from "../../transports/shares.ts";
import { ipPortOf } from "../endpoint.ts";
import { RpcRefusal, type RpcRequest } from "../handler.ts";
import { handlerOf, type ProcedureHandler } from "../procedures/implement.ts";
import { StreamTable } from "../procedures/streams.ts";
import { MAX_HELD, SOURCE_HELD } from "../serving.ts";
import { isReserved } from "../ticket.ts";
import { answerOf } from "./answer-source.ts";
import { BYTES, EXCHANGE, readExchange } from "./message.ts";

/** How a service answers HTTP by RPC. */
export interface HttpServiceOptions {
  /** The service. */
  readonly service: string;
  /** Answers its requests. */
  readonly fetch: Handler;
  /** Who may call, as `allow` of `mesh.serve` says for sessions. */
  readonly allow?: ServeOptions["allow"];
  /** What the handler is told beside who called. */
  readonly context?: Partial<Pick<CallContext, "env" | "waitUntil">> | undefined;
  readonly timers: Timers;
  readonly logger: Logger;
  /** Whether an answer can be pulled from this replica. */
  readonly isLasting: boolean;
}

/** Answers the HTTP requests to a service, by RPC as in sessions of the mesh. */
export class HttpService implements Disposable {
  /** Answers those that come by RPC. */
  readonly handler: ProcedureHandler;
  readonly #options: HttpServiceOptions;
  readonly #endpoint: Endpoint;
  readonly #streams: StreamTable;
  readonly #held: Shares = new Shares(SOURCE_HELD, MAX_HELD);

  constructor(options: HttpServiceOptions) {
    const { service: name, fetch: handler, timers, logger, isLasting } = options;
    const waitUntil = (promise: Promise<unknown>): void => detach("what a handler waits for", promise);
    const context = { env: {}, waitUntil, ...options.context, assurance: "ticket" } as const;
    const allow = checkAllow(options);
    const limit = Number.POSITIVE_INFINITY;
    const parts = { name, handler, allow, limit, version: "" };
    this.#options = options;
    this.#endpoint = new Endpoint(parts, { context, logger, observer: undefined });
    this.#streams = isLasting ? new StreamTable(BYTES, timers) : new StreamTable(BYTES, timers, 0);
    this.handler = handlerOf(this.#streams, (name, value, request) => this.#begin(name, value, request));
  }

  /** Whether `allow` of `mesh.serve` decides who makes a request in a session, and nothing who makes one by RPC. */
  lacksAllow(request: Request, context?: unknown): boolean {
    const proven = contextOf(request) ?? issuedContext(context);
    return this.#options.allow === undefined && proven !== undefined && isGated(proven);
  }

  /** Answers a request that came in a session of the mesh. */
  async answer(request: Request, context: unknown): Promise<Response> {
    if (isReserved(new URL(request.url).pathname)) return problem(404);
    const proven = contextOf(request) ?? issuedContext(context);
    return proven === undefined ? problem(403) : this.#options.fetch(request, proven);
  }

  [Symbol.dispose](): void {
    this.handler[Symbol.dispose]();
  }

  async #begin(name: string, value: Uint8Array, request: RpcRequest): Promise<Uint8Array> {
    if (name !== EXCHANGE)
      throw new RpcRefusal("NoService", "the service carries HTTP and has no procedures");
    const { head, body } = this.#read(value, request);
    const { service, timers } = this.#options;
    const { caller, payload, source } = request;
    const held = this.#held.take(ipPortOf(source)?.ip ?? "", payload.length);
    if (held === undefined) throw new RpcRefusal("TooManyRequests", "there is no room for the request");
    const served = { service, caller, head, body, held };
    return this.#streams.answer(request, (signal) => answerOf(this.#endpoint, served, signal, timers));
  }

  #read(value: Uint8Array, { isIdempotent }: RpcRequest): ReturnType<typeof readExchange> {
    const exchange = readExchange(value);
    const { method, path, headers } = exchange.decoded;
    if (isIdempotent && !IDEMPOTENT.has(method))
      throw new RpcRefusal("BadMessage", `a request of ${method} is not idempotent`);
    if (headers.some(([field]) => field === "upgrade"))
      throw new RpcRefusal("BadMessage", "a WebSocket needs a session of the mesh");
    if (isReserved(path))
      throw new RpcRefusal("NoService", "what the mesh itself asks for comes in its sessions");
    // Its answer may be long, and it must not be sent again.
    if (!isIdempotent && !this.#options.isLasting)
      throw new RpcRefusal("NoService", "a stateless server takes idempotent requests only");
    return exchange;
  }
}
