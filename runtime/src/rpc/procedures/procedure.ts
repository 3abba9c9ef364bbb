import { MeshError } from "../../codec/code.ts";
import { MAX_NAME } from "./limits.ts";
import { nothing, type Schema } from "./schema.ts";

/** Letters, digits, `_`, `-` and `.`, in any order but that a name begins with a letter. */
const NAME: RegExp = /* @__PURE__ */ new RegExp(`^[A-Za-z][A-Za-z0-9_.-]{0,${MAX_NAME - 1}}$`);

/** A procedure that answers once. `procedure` makes one. */
export interface CallProcedure<I extends Schema = Schema, O extends Schema = Schema> {
  /** How it answers. */
  readonly kind: "call";
  /** The schema of its input, by which the server validates. */
  readonly input: I;
  /** The schema of its output, by which the client validates. */
  readonly output: O;
  /** `true` if carrying it out twice does no harm. */
  readonly idempotent: boolean;
}

/** A procedure that answers with a stream of items. `procedure` makes one. */
export interface StreamProcedure<I extends Schema = Schema, T extends Schema = Schema> {
  /** How it answers. */
  readonly kind: "stream";
  /** The schema of its input, by which the server validates. */
  readonly input: I;
  /** The schema of each item, by which the client validates. */
  readonly stream: T;
  /** `true` if beginning it twice does no harm. */
  readonly idempotent: boolean;
}

/** The procedures of a service by name, which its server and its clients share. `procedures` makes one. */
export type Contract = Readonly<Record<string, CallProcedure | StreamProcedure>>;

/** The declaration of a procedure that answers once; without a schema there is no value. */
export interface CallDefinition<I extends Schema, O extends Schema> {
  /** The schema of its input. */
  readonly input?: I;
  /** The schema of its output. */
  readonly output?: O;
  /** `true` if carrying it out twice does no harm; `false` unless given. */
  readonly idempotent?: boolean;
}

/** The declaration of a procedure that answers with a stream. */
export interface StreamDefinition<I extends Schema, T extends Schema> {
  /** The schema of its input; without one there is none. */
  readonly input?: I;
  /** The schema of each item. */
  readonly stream: T;
  /** `true` if beginning it twice does no harm; `false` unless given. */
  readonly idempotent?: boolean;
}

/** Declares a procedure that answers with a stream of items. */
export function procedure<T extends Schema, I extends Schema = Schema<undefined>>(
  definition: StreamDefinition<I, T>,
): StreamProcedure<I, T>;
/** Declares a procedure that answers once. */
export function procedure<I extends Schema = Schema<undefined>, O extends Schema = Schema<undefined>>(
  definition: CallDefinition<I, O>,
): CallProcedure<I, O>;
export function procedure({
  input = nothing,
  output = nothing,
  stream,
  idempotent = false,
}: CallDefinition<Schema, Schema> & Partial<StreamDefinition<Schema, Schema>>):
  | CallProcedure
  | StreamProcedure {
  return stream === undefined
    ? { kind: "call", input, output, idempotent }
    : { kind: "stream", input, stream, idempotent };
}

/** Makes a contract of procedures. Throws `BadConfig` for a name that is not usable. */
export function procedures<C extends Contract>(contract: C): C {
  for (const name of Object.keys(contract)) {
    if (NAME.test(name)) continue;
    throw new MeshError(
      "BadConfig",
      `the name of a procedure begins with a letter and has at most ${MAX_NAME} letters, digits, '_', '-' and '.' (got ${JSON.stringify(name)})`,
    );
  }
  return contract;
}
