import type { Span } from "selfsame-apps/observability";

/** A request from one node to another, as both told of it. */
export type Hop = {
  /** Id of its span. */
  key: string;
  /** How many requests it was made within. */
  depth: number;
  /** Peer id of the caller; empty when it is not known. */
  from: string;
  /** Peer id of who answered; empty when nobody did. */
  to: string;
  service: string;
  method: string;
  /** Status of the answer, or the name of the error. */
  outcome: string;
  isError: boolean;
  start_ms: number;
  duration_ms: number;
  /** The part of it that the service took, if it told. */
  inside: { start_ms: number; duration_ms: number } | undefined;
};

/** What became of one request, with all that were made within it. */
export type Trace = {
  id: string;
  /** In the order in which they were made, each after the one that it was made within. */
  hops: Hop[];
  start_ms: number;
  duration_ms: number;
};

/** The way of a request out of the spans of its trace; `undefined` when they hold none. */
export function traceOf(spans: readonly Span[]): Trace | undefined {
  const [first] = spans;
  const sorted = spans.toSorted((a, b) => a.start_ms - b.start_ms);
  const followed = new Set<Span>();
  const hops = roots(sorted).flatMap((span) => hopsFrom(span, sorted, followed, 0));
  if (first === undefined || hops.length === 0) return undefined;
  const start_ms = Math.min(...hops.map((hop) => hop.start_ms));
  const end_ms = Math.max(...hops.map((hop) => hop.start_ms + hop.duration_ms));
  return { id: first.traceId, hops, start_ms, duration_ms: end_ms - start_ms };
}

/** The spans whose cause was not told of. */
function roots(spans: readonly Span[]): Span[] {
  const known = new Set(spans.map(({ spanId }) => spanId));
  return spans.filter(({ parentId }) => !known.has(parentId));
}

/** The hop that a span begins, then those made within it. A trace may hold anything: none is followed twice. */
function hopsFrom(span: Span, spans: readonly Span[], followed: Set<Span>, depth: number): Hop[] {
  if (followed.has(span)) return [];
  followed.add(span);
  const children = spans.filter(({ parentId }) => parentId === span.spanId);
  const served = span.kind === "client" ? children.find(({ kind }) => kind === "server") : undefined;
  if (served !== undefined) followed.add(served);
  const within = served === undefined ? [] : spans.filter(({ parentId }) => parentId === served.spanId);
  const hop = span.kind === "other" ? [] : [hopOf(span, served, depth)];
  const below = [...within, ...children].flatMap((child) =>
    hopsFrom(child, spans, followed, depth + hop.length),
  );
  return [...hop, ...below];
}

function hopOf(span: Span, served: Span | undefined, depth: number): Hop {
  const { attributes, kind, node, start_ms, duration_ms, isError } = span;
  const text = (name: string): string => String(attributes[name] ?? "");
  const isClient = kind === "client";
  return {
    key: span.spanId,
    depth,
    from: isClient ? node : text("selfsame.caller"),
    to: isClient ? text("selfsame.provider") : node,
    service: text("selfsame.service") || span.name,
    method: text("http.request.method"),
    outcome: text("http.response.status_code") || text("error.type"),
    isError,
    start_ms,
    duration_ms,
    inside: served && { start_ms: served.start_ms, duration_ms: served.duration_ms },
  };
}
