import { type CodeName, codeNames, codeNumber, MeshError } from "../codec/code.ts";
import { MAX_MESSAGE } from "./limits.ts";

/** A call that a server is asked to carry out. */
export interface RpcRequest {
  /** The request. */
  readonly payload: Uint8Array<ArrayBuffer>;
  /** The peer that the ticket was issued to, or that the session is with, 64 hex digits. */
  readonly caller: string;
  /** Where the request came from, as `IP:port`, `[::]:0` in a session; over HTTP the port is this server's number of the request. */
  readonly source: string;
  /** Whether another replica may carry it out, too: its caller has declared it idempotent. */
  readonly isIdempotent: boolean;
  /** How long its caller waits, in milliseconds. */
  readonly timeout_ms: number;
  /** Aborts when the caller has given up, or the time is over: an answer is dropped from then on. */
  readonly signal: AbortSignal;
}

/** Carries calls out. An `RpcRefusal` that it throws says why it has not; any other error tells the caller `HandlerFailed`. */
export type RpcHandler = (request: RpcRequest) => Uint8Array | Promise<Uint8Array>;

/** Thrown by a handler that did not carry a call out: the caller gets this code, and may call again. */
export class RpcRefusal extends MeshError {
  constructor(code: CodeName, detail = "") {
    super(checkedCode(code), detail);
  }
}

function checkedCode(code: CodeName): CodeName {
  if (codeNames.includes(code)) return code;
  throw new MeshError(
    "BadConfig",
    `RpcRefusal takes the name of an error code, such as NotGranted (got ${code}): docs/errors.md lists them`,
  );
}

/** The outcome of a call in its handler: its answer, or the code of a refusal. */
export type RpcOutcome = Uint8Array | number;

/** Returns the text of a handler's error for the log; `undefined` for a refusal. */
export function faultIn(error: unknown): string | undefined {
  if (error instanceof RpcRefusal) return undefined;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

/** Returns the code of a handler's error for its caller. */
export function refusalOf(error: unknown): number {
  return error instanceof RpcRefusal ? error.code : codeNumber("HandlerFailed");
}

/** Refuses what is no handler. */
export function checkHandler(handler: unknown): asserts handler is RpcHandler {
  if (typeof handler !== "function")
    throw new MeshError("BadConfig", "handler is a function that answers calls");
}

/** Returns what a handler answers if that is an answer; else throws. */
export function checkedAnswer(answer: unknown): Uint8Array {
  if (!(answer instanceof Uint8Array)) throw new TypeError("a handler answers with a Uint8Array");
  if (answer.length <= MAX_MESSAGE) return answer;
  throw new RangeError(`an answer has at most ${MAX_MESSAGE} bytes (got ${answer.length})`);
}
