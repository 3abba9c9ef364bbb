import { codeNumber, MeshError } from "../../codec/code.ts";
import { platformTimers, type Timers } from "../../driver/timers.ts";
import { type RpcHandler, RpcRefusal, type RpcRequest } from "../handler.ts";
import { type Failure, textOfIssues, writeFailure } from "./error.ts";
import { readJson, writeJson } from "./json.ts";
import { MAX_INPUT } from "./limits.ts";
import type { CallProcedure, Contract, StreamProcedure } from "./procedure.ts";
import { type InputOf, type OutputOf, validate } from "./schema.ts";
import { JSON_ITEMS } from "./source.ts";
import { StreamTable } from "./streams.ts";
import { readRequest, writeFailed, writeOutput } from "./wire.ts";

/** The caller of a procedure, and how long it waits: a request without its bytes. */
export type CallContext = Omit<RpcRequest, "payload">;

/** The caller that has begun a stream. The signal aborts when the stream ends before all items were given. */
export type StreamContext = Pick<RpcRequest, "caller" | "source" | "signal">;

/** The functions that carry the procedures of a contract out. An `RpcRefusal` that one throws reaches its caller with its message. */
export type Implementation<C extends Contract> = {
  readonly [N in keyof C]: C[N] extends StreamProcedure<infer I, infer T>
    ? (input: OutputOf<I>, context: StreamContext) => AsyncIterable<InputOf<T>>
    : C[N] extends CallProcedure<infer I, infer O>
      ? (input: OutputOf<I>, context: CallContext) => InputOf<O> | Promise<InputOf<O>>
      : never;
};

/** How a contract is implemented. */
export interface ImplementOptions {
  /** Timers of the host; the platform's unless given. */
  readonly timers?: Timers | undefined;
}

/** A handler whose open streams end when it is disposed of. */
export type ProcedureHandler = RpcHandler & Disposable;

type Act = (input: unknown, context: unknown) => unknown;
type Answer = (input: unknown, request: RpcRequest) => Promise<Uint8Array>;

interface Served {
  readonly procedure: CallProcedure | StreamProcedure;
  readonly answer: Answer;
}

/** Makes the handler of a server out of the functions for the procedures of a contract. */
export function implement<C extends Contract>(
  contract: C,
  implementation: Implementation<C>,
  { timers = platformTimers }: ImplementOptions = {},
): ProcedureHandler {
  const streams = new StreamTable(JSON_ITEMS, timers);
  const served = new Map(
    Object.entries(contract).map(([name, procedure]) => {
      const act = implementation[name] as Act | undefined;
      if (typeof act !== "function") {
        throw new MeshError("BadConfig", `the procedure ${name} is not implemented: give a function for it`);
      }
      return [name, { procedure, answer: answerOf(procedure, act, streams) }];
    }),
  );
  return handlerOf(streams, (name, value, request) => begin(served, name, value, request));
}

/** Makes the handler of a server out of its streams and of what begins a procedure. */
export function handlerOf(
  streams: StreamTable,
  begin: (name: string, value: Uint8Array, request: RpcRequest) => Promise<Uint8Array>,
): ProcedureHandler {
  const handler: RpcHandler = async (request) => {
    const message = readRequest(request.payload);
    try {
      switch (message.type) {
        case "Begin":
          return await begin(message.name, message.value, request);
        case "Ask":
          return await streams.ask(request, message.stream, message.number);
        case "End":
          streams.end(request, message.stream);
          return writeOutput(new Uint8Array());
      }
    } catch (error) {
      if (error instanceof RpcRefusal) return failed({ code: error.code, message: error.message });
      throw error;
    }
  };
  return Object.assign(handler, { [Symbol.dispose]: () => streams.close() });
}

function answerOf(procedure: CallProcedure | StreamProcedure, act: Act, streams: StreamTable): Answer {
  if (procedure.kind === "stream") {
    return (input, request) => {
      const { caller, source } = request;
      return streams.begin(
        request,
        (signal) => act(input, { caller, source, signal }) as AsyncIterable<unknown>,
      );
    };
  }
  return async (input, { payload: _, ...context }) =>
    writeOutput(writeJson(await act(input, context), "an output"));
}

async function begin(
  served: ReadonlyMap<string, Served>,
  name: string,
  value: Uint8Array,
  request: RpcRequest,
): Promise<Uint8Array> {
  const found = served.get(name);
  if (found === undefined) throw new RpcRefusal("NoService", "the service has no procedure of this name");
  const { procedure, answer } = found;
  if (request.isIdempotent && !procedure.idempotent) {
    throw new RpcRefusal("BadMessage", "the service does not declare the procedure idempotent");
  }
  const input = await validate(procedure.input, inputIn(value));
  if (input.issues !== undefined) {
    const { issues } = input;
    return failed({ code: codeNumber("BadMessage"), message: textOfIssues("the input", issues), issues });
  }
  return answer(input.value, request);
}

function failed(failure: Failure): Uint8Array {
  return writeFailed(writeFailure(failure));
}

function inputIn(value: Uint8Array): unknown {
  try {
    return readJson(value, MAX_INPUT, "an input");
  } catch (error) {
    const { code, message } = error as MeshError;
    throw new RpcRefusal(code === codeNumber("TooLarge") ? "TooLarge" : "BadMessage", message);
  }
}
