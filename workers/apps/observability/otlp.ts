/** A request as one side told of it. */
export type Span = {
  traceId: string;
  spanId: string;
  /** The span that caused it, or empty. */
  parentId: string;
  /** Peer id of the node that told of it. */
  node: string;
  /** Where that node runs, such as `deno`; may be empty. */
  domain: string;
  kind: "client" | "server" | "other";
  name: string;
  start_ms: number;
  duration_ms: number;
  isError: boolean;
  attributes: Attributes;
};

/** Requests to a service that a node counted as their caller, since its start. */
export type Count = {
  service: string;
  /** Peer id of who answered, or empty. */
  provider: string;
  isError: boolean;
  /** Since when it counts. */
  start_ms: number;
  count: number;
  /** How many took how long: one more than there are bounds. */
  buckets: number[];
  /** Upper bounds of the buckets, in seconds. */
  bounds: number[];
};

/** Values by name. */
export type Attributes = Readonly<Record<string, string | number | boolean>>;

/** Who told. */
export type Source = { node: string; domain: string; name: string };

/** What is not OTLP; the message says where. */
export class Malformed extends Error {}

const HEX = { trace: /^[0-9a-f]{32}$/, span: /^[0-9a-f]{16}$/ };
const SERVER = 2;
const CLIENT = 3;
const STATUS_ERROR = 2;
/** The metric that callers count requests with. */
const CALLS = "http.client.request.duration";
/** Longest text that is kept of a value. */
const MAX_TEXT = 256;

type Fields = Readonly<Record<string, unknown>>;

/** The spans of a body of `POST /v1/traces`, with who told of them. */
export function spansOf(body: unknown): { source: Source; spans: Span[] }[] {
  return list(body, "resourceSpans").map((entry) => {
    const source = sourceOf(entry);
    const scopes = list(entry, "scopeSpans");
    const spans = scopes.flatMap((scope) => list(scope, "spans").map((span) => spanOf(span, source)));
    return { source, spans };
  });
}

/** What a body of `POST /v1/metrics` says of requests to services, with who told of it. */
export function countsOf(body: unknown): { source: Source; counts: Count[] }[] {
  return list(body, "resourceMetrics").map((entry) => {
    const metrics = list(entry, "scopeMetrics").flatMap((scope) => list(scope, "metrics"));
    const points = metrics
      .filter(({ name }) => name === CALLS)
      .flatMap(({ histogram }) => list(histogram ?? {}, "dataPoints"));
    return { source: sourceOf(entry), counts: points.map(countOf) };
  });
}

function sourceOf(entry: Fields): Source {
  const { resource = {} } = entry;
  const known = attributesOf(fields(resource, "resource"));
  const text = (name: string): string => String(known[name] ?? "");
  return { node: text("service.instance.id"), domain: text("selfsame.domain"), name: text("service.name") };
}

function spanOf(span: Fields, { node, domain }: Source): Span {
  const { traceId, spanId, parentSpanId = "", name, kind, status = {} } = span;
  const start_ms = millis(span.startTimeUnixNano, "startTimeUnixNano");
  const hasParent = parentSpanId !== "";
  if (!matches(traceId, HEX.trace)) throw new Malformed("traceId has 32 hex digits");
  if (!matches(spanId, HEX.span)) throw new Malformed("spanId has 16 hex digits");
  if (hasParent && !matches(parentSpanId, HEX.span)) throw new Malformed("parentSpanId has 16 hex digits");
  return {
    traceId: traceId as string,
    spanId: spanId as string,
    parentId: parentSpanId as string,
    node,
    domain,
    kind: kind === SERVER ? "server" : kind === CLIENT ? "client" : "other",
    name: String(name ?? "").slice(0, MAX_TEXT),
    start_ms,
    duration_ms: Math.max(0, millis(span.endTimeUnixNano, "endTimeUnixNano") - start_ms),
    isError: fields(status, "status").code === STATUS_ERROR,
    attributes: attributesOf(span),
  };
}

function countOf(point: Fields): Count {
  const known = attributesOf(point);
  const status = Number(known["http.response.status_code"] ?? 0);
  const buckets = numbers(point, "bucketCounts");
  const bounds = numbers(point, "explicitBounds");
  if (buckets.length !== bounds.length + 1)
    throw new Malformed("bucketCounts has one more than explicitBounds");
  return {
    service: String(known["selfsame.service"] ?? ""),
    provider: String(known["selfsame.provider"] ?? ""),
    isError: known["error.type"] !== undefined || status >= 500,
    start_ms: millis(point.startTimeUnixNano, "startTimeUnixNano"),
    count: Number(point.count ?? 0),
    buckets,
    bounds,
  };
}

function attributesOf(holder: Fields): Attributes {
  const pairs = list(holder, "attributes").map(({ key, value = {} }) => {
    const given = fields(value, "value");
    const { stringValue, intValue, doubleValue, boolValue } = given;
    const number = intValue ?? doubleValue;
    if (stringValue !== undefined) return [String(key), String(stringValue).slice(0, MAX_TEXT)] as const;
    return [String(key), number === undefined ? boolValue === true : Number(number)] as const;
  });
  return Object.fromEntries(pairs);
}

/** A list of objects; one that is not there is empty, as in the protocol. */
function list(holder: unknown, name: string): Fields[] {
  const { [name]: value = [] } = fields(holder, "the body");
  if (!Array.isArray(value)) throw new Malformed(`${name} is a list`);
  return value.map((item) => fields(item, name));
}

function numbers(holder: Fields, name: string): number[] {
  const { [name]: value = [] } = holder;
  const read = Array.isArray(value) ? value.map(Number) : [Number.NaN];
  if (!read.every((item) => item >= 0)) throw new Malformed(`${name} is a list of numbers`);
  return read;
}

function fields(value: unknown, name: string): Fields {
  if (typeof value !== "object" || value === null) throw new Malformed(`${name} is an object`);
  return value as Fields;
}

function matches(value: unknown, pattern: RegExp): boolean {
  return typeof value === "string" && pattern.test(value);
}

function millis(value: unknown, name: string): number {
  if (!/^\d{1,20}$/.test(String(value))) throw new Malformed(`${name} is a time in nanoseconds`);
  return Number(BigInt(String(value)) / 1000n) / 1000;
}
