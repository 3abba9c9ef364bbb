import { fromUtf8, utf8 } from "../../codec/field.ts";
import { MAX_ISSUE_TEXT, MAX_ISSUES, MAX_PATH } from "./limits.ts";

/** A validator that follows Standard Schema (https://standardschema.dev), as those of zod, Valibot and ArkType do. */
export interface Schema<Input = unknown, Output = Input> {
  /** The interface of the standard. */
  readonly "~standard": {
    /** The version of the standard. */
    readonly version: 1;
    /** The library. */
    readonly vendor: string;
    /** Validates a value. */
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    /** The types before and after validation; never there at run time. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** A validated value, or why there is none. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

/** An issue as a validator tells it. */
export interface SchemaIssue {
  /** A sentence for people. */
  readonly message: string;
  /** The place in the value. */
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

/** The type that a schema validates. */
export type InputOf<S extends Schema> = NonNullable<S["~standard"]["types"]>["input"];

/** The type that a schema makes of it. */
export type OutputOf<S extends Schema> = NonNullable<S["~standard"]["types"]>["output"];

/** Something in a value that its schema does not allow. */
export interface RpcIssue {
  /** A sentence for people. */
  readonly message: string;
  /** The properties and indices that lead to its place. */
  readonly path: readonly (string | number)[];
}

/** The schema of no value. */
export const nothing: Schema<undefined> = {
  "~standard": {
    version: 1,
    vendor: "selfsame",
    validate: (value) =>
      value === undefined ? { value } : { issues: [{ message: "there must be no value" }] },
  },
};

/** A value that a schema has made, or the issues of the one it was given. */
export type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly RpcIssue[] };

/** Validates a value; of the issues as many, and as much of each, as are told to the other side. */
export async function validate(schema: Schema, value: unknown): Promise<Validated<unknown>> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return { value: result.value };
  return { issues: result.issues.slice(0, MAX_ISSUES).map(issueOf) };
}

function issueOf({ message, path = [] }: SchemaIssue): RpcIssue {
  const keys = path.slice(0, MAX_PATH).map((part) => (typeof part === "object" ? part.key : part));
  return { message: cut(String(message)), path: keys.map(segmentOf) };
}

function segmentOf(key: PropertyKey): string | number {
  return typeof key === "number" && Number.isSafeInteger(key) && key >= 0 ? key : cut(String(key));
}

/** Returns the beginning of a text that is told to the other side, without lone surrogates, which readers of JSON refuse. */
export function cut(text: string): string {
  return fromUtf8(utf8(text.slice(0, MAX_ISSUE_TEXT)));
}
