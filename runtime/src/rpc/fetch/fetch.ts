import { codeNumber, MeshError } from "../../codec/code.ts";
import { type Answer, discard, readAnswer, responseOf } from "../../driver/answer.ts";
import { requestHead } from "../../driver/call.ts";
import { collect } from "../../driver/collect.ts";
import { within } from "../../driver/deadline.ts";
import { Measure, saidLength } from "../../driver/length.ts";
import { nameOfUrl } from "../../driver/options.ts";
import { type Asked, checkRedirect, requestTo } from "../../driver/request.ts";
import type { MeshStream } from "../../driver/streams.ts";
import type { Timers } from "../../driver/timers.ts";
import { asksForWebSocket } from "../../websocket/handshake.ts";
import type { RpcCaller } from "../call-options.ts";
import { sendExchange } from "./exchange.ts";
import type { HttpTickets } from "./http-tickets.ts";
import { MAX_BODY } from "./message.ts";

/** How long an answer may take to begin unless the options say otherwise. */
const TIMEOUT_MS = 30_000;

/** The usual options of `fetch`, and those of the call. */
export interface RpcFetchInit extends RequestInit {
  /** How long the answer may take to begin, in milliseconds; 30 seconds unless given. */
  readonly timeout_ms?: number | undefined;
}

/** What sends the requests. */
export interface Fetching {
  readonly client: RpcCaller;
  /** Gets a ticket of a service, if there is none. */
  readonly prepare: (service: string, signal?: AbortSignal) => Promise<unknown>;
  readonly tickets: HttpTickets;
  readonly timers: Timers;
}

/** Sends a request to `https://NAME.mesh/path` by RPC and resolves with the answer, like `fetch`. */
export async function fetchByRpc(
  parts: Fetching,
  input: Request | URL | string,
  init: RpcFetchInit,
): Promise<Response> {
  const { timeout_ms = TIMEOUT_MS, ...rest } = init;
  const url = new URL(input instanceof Request ? input.url : input);
  const service = nameOfUrl(url);
  const asked = await requestTo(url, input, rest);
  const { request, cancellation, refusesRedirects } = asked;
  if (asksForWebSocket(request.method, request.headers.get("upgrade"))) {
    throw new MeshError("BadConfig", "a WebSocket needs a session of the mesh: use mesh.webSocket(url)");
  }
  const { signal } = cancellation;
  const { client, prepare, tickets, timers } = parts;
  const begun_ms = performance.now();
  const late = (): MeshError => new MeshError("TimedOut", "there was no ticket, or no whole body, in time");
  const body = await within({ timeout_ms, late, signal, timers }, async (ending) => {
    const [bytes] = await Promise.all([bodyOf(asked, ending), prepare(service, ending)]);
    return bytes;
  });
  if (!tickets.has(service)) {
    throw new MeshError("NoService", `${service} carries no HTTP by RPC: use mesh.fetch`);
  }
  const { method } = request;
  const length = asked.length ?? (asked.isStream ? undefined : body.length);
  const head = requestHead(asked, saidLength(method, asked.body !== null, length));
  const left_ms = Math.max(1, Math.trunc(timeout_ms - (performance.now() - begun_ms)));
  const exchange = { method, head, body, timeout_ms: left_ms, signal };
  const stream = await sendExchange(client, exchange, { service, timers });
  const answer = await answerOn(stream, signal);
  answer.stream.retain(cancellation);
  try {
    if (answer.status === 101) throw new MeshError("BadMessage", "the service switches protocols by RPC");
    checkRedirect(refusesRedirects, answer.status);
  } catch (error) {
    discard(answer);
    throw error;
  }
  return responseOf(answer, method, signal);
}

/** Reads the head of an answer, unless the caller gives it up. */
async function answerOn(stream: MeshStream, signal: AbortSignal | undefined): Promise<Answer> {
  const cancel = (): void => stream.reset(codeNumber("Cancelled"));
  signal?.addEventListener("abort", cancel, { once: true });
  if (signal?.aborted === true) cancel();
  try {
    return await readAnswer(stream, () => undefined);
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener("abort", cancel);
  }
}

/** Reads the body of a request, which must be as long as it is said to be. */
async function bodyOf({ body, length }: Asked, signal: AbortSignal): Promise<Uint8Array> {
  const tooLong = (): MeshError =>
    new MeshError("TooLarge", `the body of a request by RPC has at most ${MAX_BODY} bytes: use mesh.fetch`);
  const bytes = await collect(body, { most: MAX_BODY, tooLong, signal });
  const measure = new Measure(length);
  measure.add(bytes.length);
  measure.end();
  return bytes;
}
