import {
  type Amount,
  BOUNDS,
  type Counter,
  type Durations,
  type Histogram,
  type Instrument,
} from "./metrics.ts";
import type { Attributes, AttributeValue, Span, SpanEvent } from "./span.ts";

/** What wrote the data. */
const SCOPE = { name: "selfsame" };
/** Numbers of the protocol. */
const KINDS = { server: 2, client: 3 } as const;
const ERROR = 2;
const CUMULATIVE = 2;
/** Bits of a span's flags that say whether its parent is in another process: known, and true. */
const KNOWN_REMOTE = 0x100;
const REMOTE = 0x200;
const SAMPLED = 1;

/** A value of the protocol: one of the fields is set. */
type AnyValue =
  | { stringValue: string }
  | { intValue: string }
  | { doubleValue: number }
  | { boolValue: boolean };

interface KeyValue {
  readonly key: string;
  readonly value: AnyValue;
}

/** The body of `POST /v1/traces`, as JSON of OTLP. */
export function tracesBody(resource: Attributes, spans: readonly Span[]): object {
  const scopeSpans = [{ scope: SCOPE, spans: spans.map(spanOf) }];
  return { resourceSpans: [{ resource: { attributes: attributesOf(resource) }, scopeSpans }] };
}

/** The body of `POST /v1/metrics`, as JSON of OTLP: what was counted since the start. */
export function metricsBody(
  resource: Attributes,
  instruments: readonly Instrument[],
  start_ms: number,
  now_ms: number,
): object {
  const times = { startTimeUnixNano: nanos(start_ms), timeUnixNano: nanos(now_ms) };
  const metrics = instruments
    .filter((instrument) => instrument.series().length > 0)
    .map((instrument) => metricOf(instrument, times));
  const scopeMetrics = [{ scope: SCOPE, metrics }];
  return { resourceMetrics: [{ resource: { attributes: attributesOf(resource) }, scopeMetrics }] };
}

/** A time as the protocol has it: nanoseconds, in text since JavaScript's numbers are too short. */
export function nanos(at_ms: number): string {
  return String(BigInt(Math.round(at_ms * 1000)) * 1000n);
}

function spanOf(span: Span): object {
  const { context, parentId, name, kind, start_ms, duration_ms, attributes, events, isError } = span;
  return {
    traceId: context.traceId,
    spanId: context.spanId,
    ...(context.state === "" ? {} : { traceState: context.state }),
    ...(parentId === undefined ? {} : { parentSpanId: parentId }),
    flags: SAMPLED | KNOWN_REMOTE | (kind === "server" && parentId !== undefined ? REMOTE : 0),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanos(start_ms),
    endTimeUnixNano: nanos(start_ms + duration_ms),
    attributes: attributesOf(attributes),
    ...(events.length === 0 ? {} : { events: events.map(eventOf) }),
    status: isError ? { code: ERROR } : {},
  };
}

function eventOf({ at_ms, name, attributes }: SpanEvent): object {
  return { timeUnixNano: nanos(at_ms), name, attributes: attributesOf(attributes) };
}

function metricOf(instrument: Instrument, times: object): object {
  const { name, help, unit } = instrument.description;
  const described = { name, description: help, unit };
  if (instrument.type === "histogram") {
    const dataPoints = (instrument as Histogram).series().map((series) => histogramPoint(series, times));
    return { ...described, histogram: { aggregationTemporality: CUMULATIVE, dataPoints } };
  }
  const dataPoints = (instrument as Counter).series().map((series) => numberPoint(series, times));
  if (instrument.type === "gauge") return { ...described, gauge: { dataPoints } };
  return { ...described, sum: { aggregationTemporality: CUMULATIVE, isMonotonic: true, dataPoints } };
}

function histogramPoint({ attributes, count, sum, buckets }: Durations, times: object): object {
  return {
    attributes: attributesOf(attributes),
    ...times,
    count: String(count),
    sum,
    bucketCounts: buckets.map(String),
    explicitBounds: BOUNDS,
  };
}

function numberPoint({ attributes, value }: Amount, times: object): object {
  return { attributes: attributesOf(attributes), ...times, asDouble: value };
}

function attributesOf(attributes: Attributes): KeyValue[] {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: anyValueOf(value) }));
}

function anyValueOf(value: AttributeValue): AnyValue {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
