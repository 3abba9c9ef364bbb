import { MeshError } from "../../codec/code.ts";
import type { RpcCaller } from "../call-options.ts";
import { MAX_MESSAGE } from "../limits.ts";
import { type Answered, ProcedureCalls, type ProcedureOptions } from "./calls.ts";
import { ProcedureError } from "./error.ts";
import { readJson, writeJson } from "./json.ts";
import { MAX_INPUT } from "./limits.ts";
import type { CallProcedure, Contract, StreamProcedure } from "./procedure.ts";
import { pull } from "./pull.ts";
import type { InputOf, OutputOf } from "./schema.ts";
import { writeBegin } from "./wire.ts";

type Given<I> = undefined extends I
  ? [input?: I, options?: ProcedureOptions]
  : [input: I, options?: ProcedureOptions];

/** The procedures of a service as functions. They fail with a `ProcedureError`, or as `call` of the client does. */
export type TypedClient<C extends Contract> = {
  readonly [N in keyof C]: C[N] extends StreamProcedure<infer I, infer T>
    ? (...given: Given<InputOf<I>>) => AsyncGenerator<OutputOf<T>, void, undefined>
    : C[N] extends CallProcedure<infer I, infer O>
      ? (...given: Given<InputOf<I>>) => Promise<OutputOf<O>>
      : never;
};

/** Makes functions of the procedures of a service, which validate what it answers. */
export function typed<C extends Contract>(client: RpcCaller, service: string, contract: C): TypedClient<C> {
  const functions = Object.entries(contract).map(([name, procedure]) => {
    const calls = new ProcedureCalls(client, service, name);
    const start = (input: unknown, options: ProcedureOptions): Promise<Answered> =>
      begin(calls, procedure, input, options);
    const act =
      procedure.kind === "stream"
        ? (input: unknown, options: ProcedureOptions = {}) =>
            pull(calls, procedure, () => start(input, options), options)
        : async (input: unknown, options: ProcedureOptions = {}) =>
            outputIn(calls, procedure, await start(input, options));
    return [name, act] as const;
  });
  return Object.fromEntries(functions) as unknown as TypedClient<C>;
}

async function begin(
  calls: ProcedureCalls,
  { idempotent, kind }: CallProcedure | StreamProcedure,
  input: unknown,
  options: ProcedureOptions,
): Promise<Answered> {
  const value = writeJson(input, "an input");
  if (value.length > MAX_INPUT) {
    throw new MeshError("TooLarge", `an input has at most ${MAX_INPUT} bytes of JSON (got ${value.length})`);
  }
  // The replica that begins a stream has the rest of it.
  const namesReplica = kind === "stream";
  return calls.send(writeBegin(calls.name, value), { ...options, idempotent, namesReplica });
}

async function outputIn(
  calls: ProcedureCalls,
  { output }: CallProcedure,
  { message }: Answered,
): Promise<unknown> {
  if (message.type !== "Output") {
    throw new ProcedureError(calls.name, "BadMessage", `the service answers ${calls.name} with a stream`);
  }
  return calls.check(output, readJson(message.value, MAX_MESSAGE, "an output"), "the output");
}
