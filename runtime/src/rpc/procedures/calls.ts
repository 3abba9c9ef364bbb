import type { RpcCaller, RpcCallOptions } from "../call-options.ts";
import { ProcedureError, readFailure, textOfIssues } from "./error.ts";
import { type Schema, validate } from "./schema.ts";
import { type ProcedureAnswer, readAnswer } from "./wire.ts";

/** How a procedure is called. Of a stream the time is that of each call for its items, and the server is the one that begins it. */
export type ProcedureOptions = Omit<RpcCallOptions, "idempotent" | "namesReplica">;

/** An answer that is no failure, and the server that gave it. */
export interface Answered {
  /** The answer. */
  readonly message: Exclude<ProcedureAnswer, { type: "Failure" }>;
  /** Its server. */
  readonly server: string;
}

/** The calls of one procedure. */
export class ProcedureCalls {
  /** Name of the procedure. */
  readonly name: string;
  readonly #client: RpcCaller;
  readonly #service: string;

  constructor(client: RpcCaller, service: string, name: string) {
    this.#client = client;
    this.#service = service;
    this.name = name;
  }

  /** Sends a request; throws the failure that it is answered with. */
  async send(request: Uint8Array, options: RpcCallOptions): Promise<Answered> {
    const { payload, server } = await this.#client.call(this.#service, request, options);
    const message = readAnswer(payload);
    if (message.type === "Failure") throw readFailure(this.name, message.failure);
    return { message, server };
  }

  /** Validates an output or an item. */
  async check(schema: Schema, given: unknown, what: string): Promise<unknown> {
    const checked = await validate(schema, given);
    const { issues } = checked;
    if (issues === undefined) return checked.value;
    throw new ProcedureError(this.name, "BadMessage", textOfIssues(what, issues), issues);
  }
}
