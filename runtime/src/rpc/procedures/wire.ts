import { MeshError } from "../../codec/code.ts";
import { utf8 } from "../../codec/field.ts";
import { concat } from "../../concat.ts";
import { RpcRefusal } from "../handler.ts";
import { MAX_NAME } from "./limits.ts";

const VERSION = 1;
/** `spq`: a request, so that no other service takes it for one of its own. */
const REQUEST: readonly number[] = [0x73, 0x70, 0x71];
/** `spa`: an answer. */
const ANSWER: readonly number[] = [0x73, 0x70, 0x61];
const VERSION_AT = 3;
const KIND_AT = 4;
const HEAD_BYTES = 5;

/** Bytes of a stream's id. */
export const STREAM_BYTES = 16;

const BEGIN = 0;
const ASK = 1;
const END = 2;

const OUTPUT = 0;
const FAILURE = 1;
const BATCH = 2;
const LAST_BATCH = 3;

/** A request of a caller. */
export type ProcedureRequest =
  | { readonly type: "Begin"; readonly name: string; readonly value: Uint8Array }
  | { readonly type: "Ask"; readonly stream: Uint8Array; readonly number: number }
  | { readonly type: "End"; readonly stream: Uint8Array };

/** Items of a stream. */
export interface Batch {
  /** Its stream. */
  readonly stream: Uint8Array;
  /** Its number in the stream, from 0. */
  readonly number: number;
  /** `true` if no other one follows. */
  readonly isLast: boolean;
  /** An array in JSON, or bytes of HTTP. */
  readonly items: Uint8Array;
}

/** An answer to a request. */
export type ProcedureAnswer =
  | { readonly type: "Output"; readonly value: Uint8Array }
  | { readonly type: "Failure"; readonly failure: Uint8Array }
  | ({ readonly type: "Batch" } & Batch);

/** Writes what begins a procedure. */
export function writeBegin(name: string, value: Uint8Array): Uint8Array {
  const bytes = utf8(name);
  return message(REQUEST, BEGIN, [Uint8Array.of(bytes.length), bytes, value]);
}

/** Writes what asks a stream for a batch. */
export function writeAsk(stream: Uint8Array, number: number): Uint8Array {
  return message(REQUEST, ASK, [stream, u32(number)]);
}

/** Writes what ends a stream. */
export function writeEnd(stream: Uint8Array): Uint8Array {
  return message(REQUEST, END, [stream]);
}

/** Reads a request; throws a refusal for bytes that are none. */
export function readRequest(bytes: Uint8Array): ProcedureRequest {
  const kind = kindOf(bytes, REQUEST);
  if (kind === undefined) throw new RpcRefusal("BadMessage", "the request is to no procedure");
  if (kind === "newer") throw new RpcRefusal("WrongVersion");
  const body = bytes.subarray(HEAD_BYTES);
  if (kind === BEGIN) {
    const length = body[0] ?? 0;
    if (length > 0 && length <= MAX_NAME && body.length > length) {
      return { type: "Begin", name: asciiOf(body.subarray(1, 1 + length)), value: body.subarray(1 + length) };
    }
  }
  if (kind === ASK && body.length === STREAM_BYTES + 4) {
    return { type: "Ask", stream: body.subarray(0, STREAM_BYTES), number: numberAt(body, STREAM_BYTES) };
  }
  if (kind === END && body.length === STREAM_BYTES) return { type: "End", stream: body };
  throw new RpcRefusal("BadMessage", "the request to a procedure is malformed");
}

/** Writes an output. */
export function writeOutput(value: Uint8Array): Uint8Array {
  return message(ANSWER, OUTPUT, [value]);
}

/** Writes why there is no output. */
export function writeFailed(failure: Uint8Array): Uint8Array {
  return message(ANSWER, FAILURE, [failure]);
}

/** Writes a batch of items, as they are framed. */
export function writeBatch(
  stream: Uint8Array,
  number: number,
  isLast: boolean,
  items: readonly Uint8Array[],
): Uint8Array {
  return message(ANSWER, isLast ? LAST_BATCH : BATCH, [stream, u32(number), ...items]);
}

/** Reads an answer. */
export function readAnswer(bytes: Uint8Array): ProcedureAnswer {
  const kind = kindOf(bytes, ANSWER);
  if (kind === "newer")
    throw new MeshError("WrongVersion", "the service's procedures are of another version");
  const body = bytes.subarray(HEAD_BYTES);
  if (kind === OUTPUT) return { type: "Output", value: body };
  if (kind === FAILURE) return { type: "Failure", failure: body };
  if ((kind === BATCH || kind === LAST_BATCH) && body.length >= STREAM_BYTES + 4) {
    return {
      type: "Batch",
      stream: body.slice(0, STREAM_BYTES),
      number: numberAt(body, STREAM_BYTES),
      isLast: kind === LAST_BATCH,
      items: body.subarray(STREAM_BYTES + 4),
    };
  }
  throw new MeshError(
    "BadMessage",
    "the service has no procedures, or answers with what is no answer of one",
  );
}

function message(form: readonly number[], kind: number, parts: readonly Uint8Array[]): Uint8Array {
  return concat([Uint8Array.of(...form, VERSION, kind), ...parts]);
}

function kindOf(bytes: Uint8Array, form: readonly number[]): number | "newer" | undefined {
  if (!form.every((byte, at) => bytes[at] === byte)) return undefined;
  const version = bytes[VERSION_AT];
  if (version === VERSION) return bytes[KIND_AT];
  return version === undefined ? undefined : "newer";
}

/** A name of other bytes is that of no procedure. */
function asciiOf(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes);
}

function u32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
}

function numberAt(bytes: Uint8Array, at: number): number {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(at, true);
}
