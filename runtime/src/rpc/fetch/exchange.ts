import { codeNumber, MeshError } from "../../codec/code.ts";
import { IDEMPOTENT } from "../../driver/call.ts";
import type { MeshStream } from "../../driver/streams.ts";
import type { RpcCaller } from "../call-options.ts";
import { type Answered, ProcedureCalls } from "../procedures/calls.ts";
import { ProcedureError } from "../procedures/error.ts";
import { STREAM_BYTES, writeEnd } from "../procedures/wire.ts";
import { EXCHANGE, type Exchange, writeExchange } from "./message.ts";
import { errorInSession, failedStream, type PulledParts, pulledStream } from "./pulled-stream.ts";

/** No stream has this id. */
const NO_STREAM: Uint8Array = /* @__PURE__ */ new Uint8Array(STREAM_BYTES);

/** Failures that come in place of the handler's answer: the request was not carried out. */
const NOT_BEGUN: ReadonlySet<string> = /* @__PURE__ */ new Set(["NoService", "TooManyRequests"]);

/** A request to a service. */
export interface SentExchange extends Exchange {
  readonly method: string;
  /** How long the answer may take to begin. */
  readonly timeout_ms: number;
  readonly signal: AbortSignal | undefined;
}

/** Sends a request, and resolves with the stream of its answer, which has failed if the service says that there is none. Fails as calls do. */
export async function sendExchange(
  client: RpcCaller,
  { method, head, body, timeout_ms, signal }: SentExchange,
  parts: PulledParts,
): Promise<MeshStream> {
  const calls = new ProcedureCalls(client, parts.service, EXCHANGE);
  const options = { idempotent: IDEMPOTENT.has(method), namesReplica: true, timeout_ms, signal };
  try {
    const first = await calls.send(writeExchange({ head, body }), options);
    const stream = pulledStream(calls, first, parts);
    // Its time is over when the service says that it has not begun.
    if (isEmpty(first)) stream.reset(codeNumber("Deadline"));
    return stream;
  } catch (error) {
    if (!(error instanceof ProcedureError)) throw error;
    if (NOT_BEGUN.has(error.name)) throw new MeshError(error.code);
    return failedStream(errorInSession(error), parts);
  }
}

function isEmpty({ message }: Answered): boolean {
  return message.type === "Batch" && !message.isLast && message.items.length === 0;
}

/** Asks a replica of a service that carries HTTP for a sign of life; rejects without one. */
export async function probe(client: RpcCaller, service: string, timeout_ms: number): Promise<void> {
  const calls = new ProcedureCalls(client, service, EXCHANGE);
  await calls.send(writeEnd(NO_STREAM), { idempotent: true, namesReplica: true, timeout_ms });
}
