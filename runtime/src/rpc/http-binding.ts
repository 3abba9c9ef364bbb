import { MeshError } from "../codec/code.ts";
import { unlessAborted } from "../driver/deadline.ts";
import type { Timers } from "../driver/timers.ts";
import { BEGUN_BYTES, BodyError, receiveBody } from "../transports/bounded-body.ts";
import { requestHeadOf } from "./datagram.ts";
import { CROWDED, type Exchanges, type ResponseSink } from "./exchanges.ts";
import { DATAGRAM_TYPE } from "./http-way.ts";
import { MAX_BODY } from "./limits.ts";

// Datagrams are sealed and say who sent them; a page of any origin may carry them.
const CORS = {
  "access-control-allow-origin": "*",
  "access-control-allow-methods": "POST",
  "access-control-allow-headers": "content-type",
  "access-control-max-age": "86400",
};

/** The parts of a binding. */
export interface BindingParts {
  readonly timers: Timers;
  readonly exchanges: Exchanges;
}

/** Carries datagrams to a server of the RPC as bodies of POSTs, and back in their responses (docs/specification/rpc.md, "Over HTTP"). */
export class HttpBinding {
  readonly #parts: BindingParts;

  constructor(parts: BindingParts) {
    this.#parts = parts;
  }

  /** Answers a request that came from an IP address. */
  async handle(request: Request, address: string): Promise<Response> {
    const { method, headers } = request;
    if (method === "OPTIONS") return new Response(null, { status: 204, headers: CORS });
    if (method !== "POST") return refuse(405, "datagrams come by POST");
    if (headers.get("content-type") !== DATAGRAM_TYPE) return refuse(415, `send ${DATAGRAM_TYPE}`);
    const open = this.#parts.exchanges.open.take(address);
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

  async #crowded(request: Request, status: 429 | 503): Promise<Response> {
    await request.body?.cancel();
    return refuse(status, CROWDED);
  }

  async #receive(request: Request, address: string): Promise<Uint8Array | Response> {
    if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY) {
      await request.body?.cancel();
      return refuse(413, `a body has at most ${MAX_BODY} bytes`);
    }
    const { timers, exchanges } = this.#parts;
    const held = exchanges.held.take(address, BEGUN_BYTES);
    if (held === undefined) return this.#crowded(request, 503);
    try {
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
    const answered = Promise.withResolvers<Uint8Array<ArrayBuffer> | undefined>();
    // Of a connection that was closed nobody hears that.
    answered.promise.catch(() => undefined);
    const sink: ResponseSink = {
      // The request stays open until there is an answer.
      respond: (datagram, isFinal) => {
        if (isFinal) answered.resolve(datagram);
      },
      ended: () => answered.resolve(undefined),
      lost: (error) => answered.reject(error),
    };
    const { sinks } = this.#parts.exchanges.begin(body, head.id, address, sink);
    try {
      return await unlessAborted(answered.promise, signal);
    } catch (error) {
      // Nobody reads a response to a connection that was closed.
      if (signal.aborted) return undefined;
      throw error;
    } finally {
      sinks.delete(sink);
    }
  }
}

function responseOf(datagram: Uint8Array<ArrayBuffer> | undefined): Response {
  if (datagram === undefined) return new Response(null, { status: 204, headers: CORS });
  const headers = { ...CORS, "content-type": DATAGRAM_TYPE, "cache-control": "no-store" };
  return new Response(datagram, { headers });
}

/** Refuses a request; a page of any origin may read why. */
export function refuse(status: number, text: string): Response {
  const headers = new Headers(CORS);
  if (status === 405) headers.set("allow", "POST, OPTIONS");
  if (status === 429 || status === 503) headers.set("retry-after", "1");
  return new Response(`${text}\n`, { status, headers });
}
