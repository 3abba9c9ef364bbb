import { MeshError } from "../codec/code.ts";
import type { RpcInput } from "../codec/rpc.ts";
import { unlessAborted } from "../driver/deadline.ts";
import type { Timers } from "../driver/timers.ts";
import { BEGUN_BYTES, BodyError, receiveBody } from "../transports/bounded-body.ts";
import { Shares } from "../transports/shares.ts";
import { isAcknowledgement, requestHeadOf } from "./datagram.ts";
import { endpointOf, portOf } from "./endpoint.ts";
import { DATAGRAM_TYPE } from "./http-way.ts";
import { MAX_BODY } from "./limits.ts";

/** Most requests that are open, of all sources and of one: each waits for its answer. */
const MAX_OPEN = 4096;
const SOURCE_OPEN: number = MAX_OPEN / 4;
/** Most bytes of bodies, of all sources and of one, until the module has them: half of the 128 MB of an isolate, and one longest message. */
const MAX_HELD: number = 4 * MAX_BODY;
const SOURCE_HELD: number = MAX_BODY;
const MAX_PORT = 0xffff;
/** Most requests without an answer, those included whose connections are gone while their calls go on: fewer than ports. */
const MAX_EXCHANGES = 32_768;
const CROWDED = "too many requests are under way";

// Datagrams are sealed and say who sent them; a page of any origin may carry them.
const CORS = {
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "POST",
  "access-control-allow-headers": "content-type",
  "access-control-max-age": "86400",
};

/** A request that has no answer yet. */
interface Exchange {
  readonly port: number;
  readonly tag: string;
  readonly answered: PromiseWithResolvers<Uint8Array<ArrayBuffer> | undefined>;
  /** Whether its call is being carried out. */
  isServed: boolean;
}

/** The parts of a binding. */
export interface BindingParts {
  readonly timers: Timers;
  /** Gives the engine an input; `stepped` is called when the module has taken it. `false` if it takes none now. */
  readonly push: (input: RpcInput, stepped: () => void) => boolean;
}

/** Carries datagrams to a server of the RPC as bodies of POSTs, and back in their responses (docs/specification/rpc.md, "Over HTTP"). */
export class HttpBinding {
  readonly #parts: BindingParts;
  readonly #open: Shares = new Shares(SOURCE_OPEN, MAX_OPEN);
  readonly #bodies: Shares = new Shares(SOURCE_HELD, MAX_HELD);
  readonly #byPort: Map<number, Exchange> = new Map();
  readonly #byTag: Map<string, Exchange> = new Map();
  #lastPort = 0;

  constructor(parts: BindingParts) {
    this.#parts = parts;
  }

  /** Answers a request that came from an IP address. */
  async handle(request: Request, address: string): Promise<Response> {
    const { method, headers } = request;
    if (method === "OPTIONS") return new Response(null, { status: 204, headers: CORS });
    if (method !== "POST") return refuse(405, "datagrams come by POST");
    if (headers.get("content-type") !== DATAGRAM_TYPE) return refuse(415, `send ${DATAGRAM_TYPE}`);
    const open = this.#open.take(address);
    if (open === undefined) return this.#crowded(request, 429);
    try {
      const body = await this.#receive(request, address);
      if (body instanceof Response) return body;
      return responseOf(await this.#exchange(body, address, request.signal));
    } catch (error) {
      if (error instanceof BodyError) return refuse(error.status, error.message);
      if (error instanceof MeshError) return refuse(503, error.message);
      throw error;
    } finally {
      open.release();
    }
  }

  /** Notes that the call of an endpoint's request is being carried out. */
  served(source: Uint8Array): void {
    const exchange = this.#byPort.get(portOf(source));
    if (exchange !== undefined) exchange.isServed = true;
  }

  /** Takes a datagram for an endpoint: the response to its request. */
  send(target: Uint8Array, datagram: Uint8Array): void {
    // The request stays open until there is an answer.
    if (isAcknowledgement(datagram)) return;
    this.#end(portOf(target), datagram.slice());
  }

  /** Ends an endpoint's request without an answer. */
  end(source: Uint8Array): void {
    this.#end(portOf(source), undefined);
  }

  /** Fails all requests that are open. */
  lost(error: unknown): void {
    for (const { answered } of this.#byPort.values()) answered.reject(error);
    this.#byPort.clear();
    this.#byTag.clear();
  }

  async #crowded(request: Request, status: 429 | 503): Promise<Response> {
    await request.body?.cancel();
    return refuse(status, CROWDED);
  }

  async #receive(request: Request, address: string): Promise<Uint8Array | Response> {
    if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY) {
      await request.body?.cancel();
      return refuse(413, `a body has at most ${MAX_BODY} bytes`);
    }
    const held = this.#bodies.take(address, BEGUN_BYTES);
    if (held === undefined) return this.#crowded(request, 503);
    try {
      const { timers } = this.#parts;
      return await receiveBody(request, { most: MAX_BODY, held, crowded: CROWDED, timers });
    } finally {
      held.release();
    }
  }

  /** Returns the response to a datagram, if there is one. */
  async #exchange(
    body: Uint8Array,
    address: string,
    signal: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const head = requestHeadOf(body);
    if (head === undefined) throw new BodyError(400, "the body is no request");
    if (head.isPart) throw new BodyError(400, "a message over HTTP is one datagram");
    const known = this.#byTag.get(head.tag);
    // It comes again, on another connection: the answer goes to both.
    const exchange = known?.isServed === true ? known : this.#begin(body, head.tag, address);
    try {
      return await unlessAborted(exchange.answered.promise, signal);
    } catch (error) {
      // Nobody reads a response to a connection that was closed.
      if (signal.aborted) return undefined;
      throw error;
    }
  }

  #begin(bytes: Uint8Array, tag: string, ip: string): Exchange {
    if (this.#byPort.size >= MAX_EXCHANGES) throw new BodyError(503, CROWDED);
    const exchange: Exchange = {
      port: this.#freePort(),
      tag,
      answered: Promise.withResolvers(),
      isServed: false,
    };
    const source = endpointOf({ ip, port: exchange.port });
    // What has led to neither a call nor a response by then never does.
    const stepped = (): void => {
      if (!exchange.isServed) this.#end(exchange.port, undefined);
    };
    if (!this.#parts.push({ type: "Datagram", source, bytes }, stepped))
      throw new BodyError(503, "the server starts anew");
    // Of a connection that was closed nobody hears that.
    exchange.answered.promise.catch(() => undefined);
    this.#byPort.set(exchange.port, exchange);
    if (!this.#byTag.has(tag)) this.#byTag.set(tag, exchange);
    return exchange;
  }

  #freePort(): number {
    // There are fewer requests than ports.
    do this.#lastPort = (this.#lastPort % MAX_PORT) + 1;
    while (this.#byPort.has(this.#lastPort));
    return this.#lastPort;
  }

  #end(port: number, datagram: Uint8Array<ArrayBuffer> | undefined): void {
    const exchange = this.#byPort.get(port);
    if (exchange === undefined) return;
    this.#byPort.delete(port);
    if (this.#byTag.get(exchange.tag) === exchange) this.#byTag.delete(exchange.tag);
    exchange.answered.resolve(datagram);
  }
}

function responseOf(datagram: Uint8Array<ArrayBuffer> | undefined): Response {
  if (datagram === undefined) return new Response(null, { status: 204, headers: CORS });
  const headers = { ...CORS, "content-type": DATAGRAM_TYPE, "cache-control": "no-store" };
  return new Response(datagram, { headers });
}

function refuse(status: number, text: string): Response {
  const headers = new Headers(CORS);
  if (status === 405) headers.set("allow", "POST, OPTIONS");
  if (status === 429 || status === 503) headers.set("retry-after", "1");
  return new Response(`${text}\n`, { status, headers });
}
