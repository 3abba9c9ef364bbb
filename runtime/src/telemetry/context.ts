import { toHex } from "../codec/hex.ts";

/** Where a request is in a trace, as W3C Trace Context carries it. */
export interface TraceContext {
  /** Id of the trace, 32 hex digits. */
  readonly traceId: string;
  /** Id of the span, 16 hex digits. */
  readonly spanId: string;
  /** Whether the trace is recorded. */
  readonly isSampled: boolean;
  /** What other systems pass along, as it came. */
  readonly state: string;
}

/** The header with the ids. */
export const TRACEPARENT = "traceparent";
/** The header of other systems. */
export const TRACESTATE = "tracestate";

/** Later versions may append fields; 00 has none. */
const PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const SAMPLED = 1;
/** What is passed along has at most so many characters and members. */
const MAX_STATE = 512;
const MAX_MEMBERS = 32;
/** A key, perhaps with its tenant, and printable text without comma and equals sign. */
const MEMBER =
  /^[a-z0-9][a-z0-9_\-*/]{0,255}(@[a-z][a-z0-9_\-*/]{0,13})?=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,256}$/;

/** The context that headers carry; `undefined` when they carry none that is valid. */
export function readContext(headers: Headers): TraceContext | undefined {
  const match = PARENT.exec(headers.get(TRACEPARENT) ?? "");
  if (match === null) return undefined;
  const [, version = "", traceId = "", spanId = "", flags = "", more] = match;
  if (version === "ff" || (version === "00" && more !== undefined)) return undefined;
  if (/^0*$/.test(traceId) || /^0*$/.test(spanId)) return undefined;
  const isSampled = (Number.parseInt(flags, 16) & SAMPLED) !== 0;
  return { traceId, spanId, isSampled, state: readState(headers.get(TRACESTATE) ?? "") };
}

/** Puts a context into headers. */
export function writeContext({ traceId, spanId, isSampled, state }: TraceContext, headers: Headers): void {
  headers.set(TRACEPARENT, `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`);
  if (state === "") headers.delete(TRACESTATE);
  else headers.set(TRACESTATE, state);
}

/** A context below another one, or the first of a new trace, which is recorded in so many of one. */
export function childOf(parent: TraceContext | undefined, sample: number): TraceContext {
  const spanId = randomHex(8);
  if (parent !== undefined) return { ...parent, spanId };
  return { traceId: randomHex(16), spanId, isSampled: Math.random() < sample, state: "" };
}

function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  // All zeros would be no id.
  random[0] = (random[0] ?? 0) || 1;
  return toHex(random);
}

/** A list that breaks a rule is dropped whole: nobody may rely on half of it. */
function readState(text: string): string {
  const members = text.split(",").map((member) => member.trim());
  const filled = members.filter((member) => member !== "");
  const isValid =
    text.length <= MAX_STATE && filled.length <= MAX_MEMBERS && filled.every((member) => MEMBER.test(member));
  return isValid ? filled.join(",") : "";
}
