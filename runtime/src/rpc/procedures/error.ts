import { type CodeName, MeshError } from "../../codec/code.ts";
import { readJson, writeJson } from "./json.ts";
import { MAX_FAILURE, MAX_ISSUES, MAX_PATH } from "./limits.ts";
import { cut, type RpcIssue } from "./schema.ts";

/** The reason for which a procedure has no output, as it travels. */
export interface Failure {
  /** The code. */
  readonly code: number;
  /** More about this case, for people. */
  readonly message?: string | undefined;
  /** Issues of the input. */
  readonly issues?: readonly RpcIssue[] | undefined;
}

/** An error of a procedure: what its service has refused, or an output that is not what the contract says. */
export class ProcedureError extends MeshError {
  /** The procedure. */
  readonly procedure: string;
  /** Issues of the input or output; empty if the error is another one. */
  readonly issues: readonly RpcIssue[];

  constructor(procedure: string, code: CodeName | number, detail: string, issues: readonly RpcIssue[] = []) {
    super(code, detail);
    this.procedure = procedure;
    this.issues = issues;
  }
}

/** Writes a failure. */
export function writeFailure({ code, message, issues }: Failure): Uint8Array {
  return writeJson({ code, message: message === undefined ? undefined : cut(message), issues }, "a failure");
}

/** Reads a failure, whatever a service has made of it. */
export function readFailure(procedure: string, bytes: Uint8Array): ProcedureError {
  const failure = readJson(bytes, MAX_FAILURE, "a failure");
  if (!isRecord(failure) || typeof failure.code !== "number" || !isCode(failure.code)) {
    throw new MeshError("BadMessage", "a failure is not what the specification says");
  }
  const { code, message, issues } = failure;
  const told = Array.isArray(issues) ? issues.slice(0, MAX_ISSUES).flatMap(issueIn) : [];
  const detail = typeof message === "string" ? cut(message) : "";
  return new ProcedureError(procedure, code, detail, told);
}

/** Returns what people read of issues. */
export function textOfIssues(what: string, issues: readonly RpcIssue[]): string {
  const texts = issues.map(({ message, path }) =>
    path.length === 0 ? message : `${path.join(".")}: ${message}`,
  );
  return `${what} is not what the contract says: ${texts.join("; ")}`;
}

function issueIn(value: unknown): RpcIssue[] {
  if (!isRecord(value) || typeof value.message !== "string") return [];
  const path = Array.isArray(value.path) ? value.path.slice(0, MAX_PATH) : [];
  const keys = path.map((key: unknown) => (typeof key === "number" ? key : cut(String(key))));
  return [{ message: cut(value.message), path: keys }];
}

function isCode(value: number): boolean {
  return Number.isInteger(value) && value > 0 && value <= 0xffff;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
