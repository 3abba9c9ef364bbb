import type { TraceContext } from "./context.ts";

/** Values of an attribute. */
export type AttributeValue = string | number | boolean;

/** What is known of a span, a series or a node, by its name in OpenTelemetry. */
export type Attributes = Readonly<Record<string, AttributeValue>>;

/** Something that happened during a span. */
export interface SpanEvent {
  /** When, in milliseconds since 1970. */
  readonly at_ms: number;
  /** What. */
  readonly name: string;
  /** More of it. */
  readonly attributes: Attributes;
}

/** A request that has ended, as one side saw it. */
export interface Span {
  /** Its ids. */
  readonly context: TraceContext;
  /** The span that caused it; `undefined` for the first of a trace. */
  readonly parentId: string | undefined;
  /** The method, then the service. */
  readonly name: string;
  /** Whether it was sent or served. */
  readonly kind: "client" | "server";
  /** When it began, in milliseconds since 1970. */
  readonly start_ms: number;
  /** How long it took. */
  readonly duration_ms: number;
  /** What is known of it. Never a header, a query or a body. */
  readonly attributes: Attributes;
  /** What happened meanwhile. */
  readonly events: readonly SpanEvent[];
  /** Whether it failed. */
  readonly isError: boolean;
}

/** Measures a span. The clock of the platform may be set meanwhile, and the duration is right still. */
export class Stopwatch {
  /** When it began, in milliseconds since 1970. */
  readonly start_ms: number = Date.now();
  readonly #start: number = performance.now();

  /** How long it has run. */
  get elapsed_ms(): number {
    return performance.now() - this.#start;
  }
}

const METHODS: ReadonlySet<string> = /* @__PURE__ */ new Set([
  "CONNECT",
  "DELETE",
  "GET",
  "HEAD",
  "OPTIONS",
  "PATCH",
  "POST",
  "PUT",
  "TRACE",
]);

/** A method as it is told: callers make up others, and each would be a series of its own. */
export function knownMethod(method: string): string {
  return METHODS.has(method) ? method : "_OTHER";
}
