import { codeNumber } from "../codec/code.ts";
import { problem } from "../codec/problem.ts";
import { unlessAborted, within } from "../driver/deadline.ts";
import { Logger, type LogOptions } from "../driver/log.ts";
import { MAX_TIMER_MS, platformTimers, type Timers } from "../driver/timers.ts";
import { BEGUN_BYTES, BodyError, receiveBody } from "../transports/bounded-body.ts";
import { type Share, Shares } from "../transports/shares.ts";
import { provenCaller } from "./caller.ts";
import { addressOf, textOfIpPort, UNKNOWN } from "./endpoint.ts";
import {
  checkedAnswer,
  checkHandler,
  faultIn,
  type RpcHandler,
  type RpcOutcome,
  RpcRefusal,
  type RpcRequest,
  refusalOf,
} from "./handler.ts";
import { MAX_MESSAGE } from "./limits.ts";
import { CALL_PATH, PAYLOAD_TYPE, REFUSAL_FIELD, TIMEOUT_FIELD } from "./session-call.ts";
import { encodeInSession, TICKET_PATH } from "./ticket.ts";

/** Most calls that are carried out at a time, of all callers and of one. */
const MAX_RUNNING = 4096;
const CALLER_RUNNING: number = MAX_RUNNING / 4;
/** Most bytes of requests until their calls end, of all callers and of one: half of the 128 MB of an isolate, and one longest message. */
const MAX_HELD: number = 4 * MAX_MESSAGE;
const CALLER_HELD: number = MAX_MESSAGE;
const MAX_TIMEOUT_MS = 0xffff_ffff;
/** Time for a request to arrive. */
const BODY_MS = 20_000;
const CROWDED = "too many calls are under way";

/** How the calls of a service are answered in sessions of the mesh. */
export interface RpcSessionOptions extends LogOptions {
  /** Carries calls out. */
  readonly handler: RpcHandler;
  /** Whether calls that their callers declare idempotent may be carried out by several providers, once each. */
  readonly idempotent?: boolean | undefined;
  /** Timers of the host; the platform's unless given. */
  readonly timers?: Timers | undefined;
}

/** Answers the requests for a service, as a mesh hands them over. */
export type MeshHandler = (request: Request, context?: unknown) => Promise<Response>;

/**
 * Makes what answers calls in sessions of the mesh, each with keys of its own, and no others: `mesh.serve(service, rpcInSession({ handler }))`.
 * Callers that ask for a ticket learn so.
 */
export function rpcInSession(options: RpcSessionOptions): MeshHandler {
  checkHandler(options.handler);
  const calls = new SessionCalls(options);
  return async (request, context) => {
    const { pathname } = new URL(request.url);
    if (pathname !== TICKET_PATH) return calls.answer(request, provenCaller(request, context));
    if (request.method !== "POST") return new Response(null, { status: 405, headers: { allow: "POST" } });
    return new Response(encodeInSession(), { headers: { "cache-control": "no-store" } });
  };
}

/** A call for which there is room. */
interface Admitted {
  readonly caller: string;
  readonly timeout_ms: number;
  /** The memory that its request takes. */
  readonly held: Share;
}

/** Answers the calls of a service that come in sessions of the mesh. */
export class SessionCalls {
  readonly #handler: RpcHandler;
  readonly #methods: readonly string[];
  readonly #logger: Logger;
  readonly #timers: Timers;
  readonly #running: Shares = new Shares(CALLER_RUNNING, MAX_RUNNING);
  readonly #bodies: Shares = new Shares(CALLER_HELD, MAX_HELD);

  constructor({ handler, idempotent = false, log, logLevel, timers = platformTimers }: RpcSessionOptions) {
    this.#handler = handler;
    this.#methods = idempotent ? ["POST", "PUT"] : ["POST"];
    this.#logger = new Logger(log, logLevel);
    this.#timers = timers;
  }

  /** Answers a request of the mesh to the path of calls, of a peer if one was proven. */
  async answer(request: Request, caller: string | undefined): Promise<Response> {
    if (new URL(request.url).pathname !== CALL_PATH) return problem(404);
    if (caller === undefined) return problem(403);
    if (!this.#methods.includes(request.method)) {
      return new Response(null, { status: 405, headers: { allow: this.#methods.join(", ") } });
    }
    const timeout_ms = timeoutOf(request.headers);
    if (timeout_ms === undefined) return problem(400, { detail: `${TIMEOUT_FIELD} is missing or wrong` });
    const [running, held] = [this.#running.takeAs(caller), this.#bodies.takeAs(caller, BEGUN_BYTES)];
    try {
      if (running === undefined || held === undefined) return problem(503, { detail: CROWDED });
      return responseOf(await this.#outcome(request, { caller, timeout_ms, held }));
    } catch (error) {
      if (error instanceof BodyError) return problem(error.status, { detail: error.message });
      throw error;
    } finally {
      running?.release();
      held?.release();
    }
  }

  async #outcome(request: Request, { caller, timeout_ms, held }: Admitted): Promise<RpcOutcome> {
    const begun_ms = performance.now();
    const payload = await receive(request, { held, timeout_ms, timers: this.#timers });
    const left_ms = Math.max(1, Math.trunc(timeout_ms - (performance.now() - begun_ms)));
    const isIdempotent = request.method === "PUT";
    const source = textOfIpPort(addressOf(UNKNOWN));
    const call = { payload, caller, source, isIdempotent, timeout_ms: left_ms };
    try {
      return await this.#carryOut(call, request.signal);
    } catch (error) {
      // Nobody waits for the answer any more.
      if (request.signal.aborted) throw request.signal.reason;
      const fault = faultIn(error);
      const { hostname } = new URL(request.url);
      if (fault !== undefined)
        this.#logger.log("error", `the RPC handler of ${hostname} failed: ${fault}`, refusalOf(error));
      return refusalOf(error);
    }
  }

  #carryOut(call: Omit<RpcRequest, "signal">, gone: AbortSignal): Promise<Uint8Array> {
    const timeout_ms = Math.min(call.timeout_ms, MAX_TIMER_MS);
    const late = (): RpcRefusal => new RpcRefusal("Deadline");
    return within({ timeout_ms, late, signal: gone, timers: this.#timers }, async (signal) => {
      const answering = Promise.resolve(this.#handler({ ...call, signal }));
      // The handler may use its memory again.
      return checkedAnswer(await unlessAborted(answering, signal)).slice();
    });
  }
}

async function receive(
  request: Request,
  { held, timeout_ms, timers }: Pick<Admitted, "held" | "timeout_ms"> & { readonly timers: Timers },
): Promise<Uint8Array<ArrayBuffer>> {
  if (Number(request.headers.get("content-length") ?? 0) > MAX_MESSAGE) {
    throw new BodyError(413, `a request has at most ${MAX_MESSAGE} bytes`);
  }
  const receiving = { most: MAX_MESSAGE, held, crowded: CROWDED, timers };
  const body = await receiveBody(request, { ...receiving, timeout_ms: Math.min(timeout_ms, BODY_MS) });
  held.shrink(Math.max(0, BEGUN_BYTES - body.length));
  return body as Uint8Array<ArrayBuffer>;
}

function timeoutOf(headers: Headers): number | undefined {
  const text = headers.get(TIMEOUT_FIELD) ?? "";
  const timeout_ms = /^\d{1,10}$/.test(text) ? Number(text) : 0;
  return timeout_ms > 0 && timeout_ms <= MAX_TIMEOUT_MS ? timeout_ms : undefined;
}

/** Returns the response with the outcome of a call. A handler that fails counts against its provider, a refusal does not. */
function responseOf(outcome: RpcOutcome): Response {
  const headers = new Headers({ "cache-control": "no-store" });
  if (typeof outcome === "number") {
    headers.set(REFUSAL_FIELD, `${outcome}`);
    return new Response(null, { status: outcome === codeNumber("HandlerFailed") ? 500 : 422, headers });
  }
  headers.set("content-type", PAYLOAD_TYPE);
  return new Response(outcome as Uint8Array<ArrayBuffer>, { headers });
}
