import { MeshError } from "../codec/code.ts";
import { collect } from "../driver/collect.ts";
import type { CallOptions } from "../driver/service.ts";
import { detach } from "../guard.ts";
import { MAX_MESSAGE } from "./limits.ts";
import type { RpcAnswer } from "./line.ts";
import type { TicketMesh } from "./ticket.ts";

/** Where a service takes calls in sessions of the mesh. */
export const CALL_PATH = "/.well-known/selfsame-rpc/call";
/** Says how long the caller waits, in milliseconds. */
export const TIMEOUT_FIELD = "selfsame-rpc-timeout";
/** Says in a request that its caller takes a ticket; holds that in the answer. */
export const TICKET_FIELD = "selfsame-rpc-ticket";
/** Value of that field in a request. */
export const TAKES_TICKET = "1";
/** Holds the code of a refusal. */
export const REFUSAL_FIELD = "selfsame-rpc-refusal";
/** Type of requests and answers. */
export const PAYLOAD_TYPE = "application/octet-stream";

/** Errors of the mesh that say that no provider has got the request. Any other one may hide that a call was carried out. */
const UNSENT: ReadonlySet<string> = /* @__PURE__ */ new Set([
  "BadConfig",
  "BadName",
  "DialFailed",
  "NoProvider",
  "NoRoute",
  "NoService",
  "NotJoined",
  "RetryBudget",
]);

/** A call in a session of the mesh. */
export interface SessionCall {
  readonly service: string;
  readonly payload: Uint8Array<ArrayBuffer>;
  readonly isIdempotent: boolean;
  readonly timeout_ms: number;
  /** Ends the call, by `late` too. */
  readonly signal: AbortSignal;
  /** Ends it when its time is over. */
  readonly late: AbortSignal;
  /** Whether its caller has no ticket and takes one with the answer. */
  readonly takesTicket: boolean;
}

/** What came of a call in a session, unless that failed: the answer, or why the provider has taken no call and carried nothing out. */
export type SessionOutcome =
  | {
      readonly answer: RpcAnswer;
      /** The ticket that came with it, as base64url. Secret. */
      readonly ticket?: string | undefined;
    }
  | { readonly notTaken: MeshError };

type Method = "POST" | "PUT";

/** Makes a call in a session with a provider of the service: keys are agreed by Diffie-Hellman, and forward secret. */
export async function callInSession(
  mesh: TicketMesh,
  lookup: CallOptions,
  call: SessionCall,
): Promise<SessionOutcome> {
  const begun_ms = performance.now();
  // The mesh repeats a PUT where that is safe, and never a POST.
  if (call.isIdempotent) {
    const outcome = await attempt(mesh, lookup, call, "PUT");
    if (outcome !== undefined) return outcome;
  }
  const timeout_ms = Math.max(1, Math.trunc(call.timeout_ms - (performance.now() - begun_ms)));
  const outcome = await attempt(mesh, lookup, { ...call, timeout_ms }, "POST");
  return outcome ?? { notTaken: notServed(call.service, 405) };
}

/** Returns what came of the call; `undefined` if the service does not take the method. */
async function attempt(
  mesh: TicketMesh,
  lookup: CallOptions,
  call: SessionCall,
  method: Method,
): Promise<SessionOutcome | undefined> {
  const { service, payload, timeout_ms, signal, takesTicket } = call;
  const server = `https://${service}.mesh`;
  const headers = {
    "content-type": PAYLOAD_TYPE,
    [TIMEOUT_FIELD]: `${timeout_ms}`,
    ...(takesTicket ? { [TICKET_FIELD]: TAKES_TICKET } : {}),
  };
  const init = { ...lookup, method, headers, body: payload, timeout_ms, signal };
  let response: Response;
  try {
    response = await mesh.fetch(server + CALL_PATH, init);
    if (isAnswer(response)) {
      const ticket = takesTicket ? (response.headers.get(TICKET_FIELD) ?? undefined) : undefined;
      return { answer: { payload: await payloadOf(response, signal), server }, ticket };
    }
  } catch (error) {
    throw failureOf(error, call, method);
  }
  detach("the rest of a refusal", response.body?.cancel() ?? Promise.resolve());
  if (response.status === 405) return undefined;
  const refusal = refusalIn(service, response);
  if (refusal !== undefined && isNotTaken(response)) return { notTaken: refusal };
  const unknown = new MeshError(
    "BadMessage",
    `a provider of ${service} answers ${response.status} to a call`,
  );
  throw refusal ?? failureOf(unknown, call, method);
}

/** Whether a response is that of a service of the RPC: other programs may answer any path. */
function isAnswer({ status, headers }: Response): boolean {
  return status === 200 && headers.get("content-type") === PAYLOAD_TYPE;
}

/** Whether the provider takes no calls in sessions, or has no room for one. */
function isNotTaken({ status, headers }: Response): boolean {
  return (status === 404 || status === 503) && !headers.has(REFUSAL_FIELD);
}

async function payloadOf({ body }: Response, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  const tooLong = (): MeshError => new MeshError("BadMessage", `an answer has at most ${MAX_MESSAGE} bytes`);
  return (await collect(body, { most: MAX_MESSAGE, tooLong, signal })) as Uint8Array<ArrayBuffer>;
}

/** Returns why a call was refused; `undefined` if the answer does not say whether it was carried out. */
function refusalIn(service: string, { status, headers }: Response): MeshError | undefined {
  const code = headers.get(REFUSAL_FIELD);
  if (code !== null) return isCode(code) ? new MeshError(Number(code)) : undefined;
  if (status === 400 || status === 403 || status === 404) return notServed(service, status);
  if (status === 408) return new MeshError("TimedOut", "the request did not arrive in time");
  if (status === 413) return new MeshError("TooLarge", `a request has at most ${MAX_MESSAGE} bytes`);
  if (status === 500) return new MeshError("HandlerFailed");
  return status === 503
    ? new MeshError("TooManyRequests", `a provider of ${service} has no room`)
    : undefined;
}

function isCode(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) <= 0xffff;
}

function notServed(service: string, status: number): MeshError {
  const question = status === 403 ? "may this peer call it?" : "does it serve RPC?";
  return new MeshError("NoService", `a provider of ${service} answers ${status} to a call: ${question}`);
}

function failureOf(cause: unknown, { signal, late }: SessionCall, method: Method): unknown {
  const isLate = late.aborted && signal.reason === late.reason;
  if (signal.aborted && !isLate) return signal.reason;
  if (cause instanceof MeshError && UNSENT.has(cause.name)) return cause;
  if (method === "POST") return new MeshError("OutcomeUnknown", "", { cause });
  const isOver = isLate || (cause instanceof MeshError && cause.name === "Deadline");
  return isOver ? new MeshError("TimedOut", "there was no answer in time", { cause }) : cause;
}
