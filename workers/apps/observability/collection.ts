import type { Count, Source, Span } from "./otlp.ts";

/** Traces that are kept: the latest. */
const MAX_TRACES = 500;
/** Spans of one trace that are kept. */
const MAX_SPANS = 200;
/** Nodes that are kept: those that were heard last. */
const MAX_NODES = 1024;
/** Series of one node: services and their providers. */
const MAX_SERIES = 4096;
/** Services that are told of; each costs a few kilobytes. */
const MAX_SERVICES = 256;
/** Providers of a service that are told of. */
const MAX_PROVIDERS = 64;
/** A node that began so long ago at most has counted nothing that is old. */
const FRESH_MS = 10_000;
/** Seconds of which requests are told apart. */
export const WINDOW_S = 60;

/** A node that told of itself. */
export type NodeSeen = { id: string; domain: string; name: string; heard_ms: number };

/** Requests within the window that one provider answered. */
export type ProviderLoad = { peer: string; requests: number; errors: number };

/** Requests to a service within the window, as its callers counted them. */
export type ServiceLoad = {
  name: string;
  requests: number;
  errors: number;
  /** How long half of them, and nineteen of twenty, took at most; `null` without any. */
  p50_ms: number | null;
  p95_ms: number | null;
  providers: ProviderLoad[];
  /** Requests of each second, the oldest first. */
  perSecond: number[];
};

/** All that is known at a time. */
export type Overview = { now_ms: number; window_s: number; nodes: NodeSeen[]; services: ServiceLoad[] };

/** The requests of one second to one provider. */
type Second = { second: number; provider: string; requests: number; errors: number; buckets: number[] };

type Service = { seconds: Second[]; bounds: number[] };

type Heard = { seen: NodeSeen; totals: Map<string, Count>; isNew: boolean };

/** What nodes have told, in bounded memory. */
export class Collection {
  readonly #traces: Map<string, Span[]> = new Map();
  readonly #nodes: Map<string, Heard> = new Map();
  readonly #services: Map<string, Service> = new Map();

  /** Keeps spans. */
  addSpans(source: Source, spans: readonly Span[], now_ms: number): void {
    this.#hear(source, now_ms);
    for (const span of spans) {
      const trace = this.#traces.get(span.traceId) ?? [];
      if (trace.length >= MAX_SPANS || trace.some(({ spanId }) => spanId === span.spanId)) continue;
      trace.push(span);
      putLast(this.#traces, span.traceId, trace, MAX_TRACES);
    }
  }

  /** Takes over what a node has counted since its start. */
  addCounts(source: Source, counts: readonly Count[], now_ms: number): void {
    const heard = this.#hear(source, now_ms);
    const second = Math.floor(now_ms / 1000);
    for (const [key, total] of summed(counts)) {
      const before = heard.totals.get(key);
      putLast(heard.totals, key, total, MAX_SERIES);
      // What a node counted before this collection began was not now.
      const isOld = heard.isNew && before === undefined && total.start_ms < now_ms - FRESH_MS;
      if (!isOld) this.#count(grown(total, before), second);
    }
    heard.isNew = false;
  }

  /** What is known now. */
  overview(now_ms: number): Overview {
    const last = Math.floor(now_ms / 1000);
    const services = [...this.#services].map(([name, service]) => loadOf(name, service, last));
    services.sort((a, b) => (a.name < b.name ? -1 : 1));
    const nodes = [...this.#nodes.values()].map(({ seen }) => seen);
    return { now_ms, window_s: WINDOW_S, nodes, services };
  }

  /** The latest traces, the one that was told of last first. */
  traces(limit: number): Span[][] {
    return [...this.#traces.values()].slice(-limit).reverse();
  }

  /** One trace, if it is kept. */
  trace(id: string): Span[] | undefined {
    return this.#traces.get(id);
  }

  #hear({ node, domain, name }: Source, now_ms: number): Heard {
    const seen = { id: node, domain, name, heard_ms: now_ms };
    const heard = this.#nodes.get(node) ?? { seen, totals: new Map(), isNew: true };
    heard.seen = seen;
    putLast(this.#nodes, node, heard, MAX_NODES);
    return heard;
  }

  #count({ service: name, provider, isError, count, buckets, bounds }: Count, second: number): void {
    if (count <= 0) return;
    const service = this.#services.get(name) ?? { seconds: [], bounds };
    service.bounds = bounds;
    const isKnown = (known: Second): boolean => known.second === second && known.provider === provider;
    const known = service.seconds.find(isKnown);
    const entry = known ?? { second, provider, requests: 0, errors: 0, buckets: [] };
    entry.requests += count;
    if (isError) entry.errors += count;
    entry.buckets = added(buckets, entry.buckets, 1);
    const isRecent = (other: Second): boolean => other.second > second - WINDOW_S;
    const recent = service.seconds.filter((other) => other !== entry && isRecent(other));
    service.seconds = [...recent, entry].slice(-WINDOW_S * MAX_PROVIDERS);
    putLast(this.#services, name, service, MAX_SERVICES);
  }
}

/** Puts an entry at the end of a map and forgets the first ones beyond the limit. */
function putLast<V>(map: Map<string, V>, key: string, value: V, limit: number): void {
  map.delete(key);
  map.set(key, value);
  for (const first of map.keys()) {
    if (map.size <= limit) return;
    map.delete(first);
  }
}

/** Counts of the same service, provider and outcome together: methods and statuses are not told apart. */
function summed(counts: readonly Count[]): Map<string, Count> {
  const sums = new Map<string, Count>();
  for (const count of counts) {
    const key = `${count.service} ${count.provider} ${count.isError}`;
    const sum = sums.get(key);
    if (sum === undefined) sums.set(key, count);
    else
      sums.set(key, {
        ...count,
        count: sum.count + count.count,
        buckets: added(sum.buckets, count.buckets, 1),
      });
  }
  return sums;
}

/** What was added to a total; a total that is smaller began anew, with its node. */
function grown(total: Count, before: Count | undefined): Count {
  if (before === undefined || before.count > total.count) return total;
  return { ...total, count: total.count - before.count, buckets: added(total.buckets, before.buckets, -1) };
}

function added(left: readonly number[], right: readonly number[], sign: 1 | -1): number[] {
  return left.map((value, index) => value + sign * (right[index] ?? 0));
}

function loadOf(name: string, { seconds, bounds }: Service, last: number): ServiceLoad {
  const recent = seconds.filter(({ second }) => second > last - WINDOW_S);
  const perSecond = new Array<number>(WINDOW_S).fill(0);
  const providers = new Map<string, ProviderLoad>();
  for (const { second, provider, requests, errors } of recent) {
    const index = WINDOW_S - 1 - (last - second);
    if (index < WINDOW_S) perSecond[index] = (perSecond[index] ?? 0) + requests;
    const load = providers.get(provider) ?? { peer: provider, requests: 0, errors: 0 };
    load.requests += requests;
    load.errors += errors;
    providers.set(provider, load);
  }
  const buckets = recent.reduce((sum, { buckets }) => added(buckets, sum, 1), [] as number[]);
  const total = (of: (second: Second) => number): number =>
    recent.reduce((sum, second) => sum + of(second), 0);
  return {
    name,
    requests: total(({ requests }) => requests),
    errors: total(({ errors }) => errors),
    p50_ms: quantile(buckets, bounds, 0.5),
    p95_ms: quantile(buckets, bounds, 0.95),
    providers: [...providers.values()].sort((a, b) => b.requests - a.requests),
    perSecond,
  };
}

/** The time that this share of the requests took at most, between the bounds of its bucket. */
function quantile(buckets: readonly number[], bounds: readonly number[], share: number): number | null {
  const wanted = buckets.reduce((sum, count) => sum + count, 0) * share;
  if (wanted === 0) return null;
  let below = 0;
  for (const [index, count] of buckets.entries()) {
    if (below + count >= wanted) {
      const from = bounds[index - 1] ?? 0;
      const to = bounds[index] ?? from;
      return 1000 * (from + ((to - from) * (wanted - below)) / count);
    }
    below += count;
  }
  return null;
}
