import { MeshError } from "../codec/code.ts";
import type {
  CallObservation,
  NodeStatus,
  ObservedNode,
  Observer,
  Served,
  ServeObservation,
} from "../driver/observe.ts";
import { reasonOf } from "../guard.ts";
import { type CollectingService, type Collector, endpointCollector, serviceCollector } from "./collector.ts";
import { childOf, readContext, type TraceContext, writeContext } from "./context.ts";
import { contexts } from "./current.ts";
import { type Delivery, Exporter } from "./exporter.ts";
import { Measures, nodeInstruments } from "./measures.ts";
import { metricsBody, tracesBody } from "./otlp.ts";
import { prometheusText } from "./prometheus.ts";
import { type Attributes, knownMethod, type Span, type SpanEvent, Stopwatch } from "./span.ts";

/** The service that nodes look for unless told otherwise. */
const SERVICE = "observability";
/** How long spans are gathered unless told otherwise. */
const INTERVAL_MS = 1_000;
/** How long a node that closes waits for its last batch. */
const CLOSE_TIMEOUT_MS = 2_000;
/** Longest name of a kind of error that is told. */
const MAX_TYPE = 64;

/** How a node's telemetry is made and where it goes. */
export interface TelemetryOptions {
  /** Name of the program, `service.name` of its telemetry; the network's unless given. */
  readonly name?: string | undefined;
  /** More of what is known of the program: attributes of its resource. */
  readonly attributes?: Attributes | undefined;
  /** A collector outside the mesh: the base of its OTLP/HTTP addresses, such as `http://localhost:4318`. */
  readonly endpoint?: string | undefined;
  /** Headers for that collector. They are sent there and nowhere else. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * The service of the mesh that collects: `observability` of the configured owner unless given. With `false`, or while
   * nobody serves it, nothing is sent there.
   */
  readonly service?: string | CollectingService | false | undefined;
  /** Share of the traces begun here that are recorded, 0 to 1; all unless given. Numbers count every request. */
  readonly sample?: number | undefined;
  /** How long spans are gathered before they are sent, in milliseconds; one second unless given. */
  readonly intervalMs?: number | undefined;
}

/** Follows the requests of a node: give it to `join` as `telemetry`. One for each node. */
export function telemetry(options: TelemetryOptions = {}): Observer {
  return new Telemetry(options);
}

class Telemetry implements Observer {
  readonly #options: TelemetryOptions;
  readonly #sample: number;
  readonly #interval_ms: number;
  readonly #collecting: CollectingService | undefined;
  readonly #measures: Measures = new Measures();
  readonly #start_ms: number = Date.now();
  #resource: Attributes = {};
  #exporters: readonly Exporter[] | undefined;

  constructor(options: TelemetryOptions) {
    const { sample = 1, intervalMs = INTERVAL_MS, service = SERVICE } = options;
    if (!(sample >= 0 && sample <= 1)) throw new MeshError("BadConfig", "sample is a number from 0 to 1");
    if (!(intervalMs >= 0)) throw new MeshError("BadConfig", "intervalMs is a time in milliseconds");
    if (options.endpoint !== undefined && !/^https?:\/\/./.test(options.endpoint)) {
      throw new MeshError("BadConfig", "endpoint is a URL such as http://localhost:4318");
    }
    this.#options = options;
    this.#sample = sample;
    this.#interval_ms = intervalMs;
    if (service !== false) this.#collecting = typeof service === "string" ? { name: service } : service;
  }

  follow(node: ObservedNode): void {
    if (this.#exporters !== undefined) {
      throw new MeshError("BadConfig", "telemetry follows one node: make one for each");
    }
    const { name, attributes = {}, endpoint, headers = {} } = this.#options;
    this.#resource = {
      "service.name": name ?? node.network,
      "service.namespace": node.network,
      "service.instance.id": node.id,
      "telemetry.sdk.name": "selfsame",
      "telemetry.sdk.language": "webjs",
      ...(node.domain === "" ? {} : { "selfsame.domain": node.domain }),
      ...attributes,
    };
    const found = this.#collecting;
    const isKnown = found !== undefined && node.knowsOwner(found.name, found);
    const collectors = [
      ...(endpoint === undefined ? [] : [endpointCollector(endpoint, headers, node.timers)]),
      ...(isKnown ? [serviceCollector(found, node)] : []),
    ];
    this.#exporters = collectors.map((collector) => this.#exporter(collector, node));
  }

  call(request: Request, service: string): CallObservation {
    const parent = readContext(request.headers) ?? contexts().getStore();
    const context = this.#contextOf(parent, service);
    writeContext(context, request.headers);
    return new ClientSpan(request, service, this.#sink("client", context, parent));
  }

  serve(request: Request, served: Served): ServeObservation {
    const { service } = served;
    const parent = readContext(request.headers);
    const context = this.#contextOf(parent, service);
    // What the handler sends on by itself belongs to this span, not to the caller's.
    writeContext(context, request.headers);
    this.#measures.began(service);
    const sink = this.#sink("server", context, parent);
    return new ServerSpan(request, served, context, (ended) => {
      this.#measures.ended(service);
      sink(ended);
    });
  }

  metrics(status: NodeStatus): string {
    const { "service.name": job = "", "service.instance.id": instance = "" } = this.#resource;
    const instruments = [...this.#measures.instruments, ...nodeInstruments(status)];
    return prometheusText(instruments, { service_name: job, node: instance });
  }

  async close(): Promise<void> {
    await Promise.all((this.#exporters ?? []).map((exporter) => exporter.close(CLOSE_TIMEOUT_MS)));
  }

  /** A trace that tells of telemetry would never end: requests to who collects it are only counted. */
  #contextOf(parent: TraceContext | undefined, service: string): TraceContext {
    const context = childOf(parent, this.#sample);
    return service === this.#collecting?.name ? { ...context, isSampled: false } : context;
  }

  /** What becomes of a request that has ended. */
  #sink(kind: Span["kind"], context: TraceContext, parent: TraceContext | undefined): Sink {
    return ({ labels, resends, ...ended }) => {
      this.#measures.request(kind, ended.duration_ms / 1000, labels, resends);
      if (labels["selfsame.service"] === this.#collecting?.name) return;
      for (const exporter of this.#exporters ?? []) {
        if (context.isSampled) exporter.add({ context, parentId: parent?.spanId, kind, ...ended });
        else exporter.touch();
      }
    };
  }

  #exporter(collector: Collector, node: ObservedNode): Exporter {
    return new Exporter({
      interval_ms: this.#interval_ms,
      timers: node.timers,
      send: (spans) => this.#send(spans, collector, node),
      lost: (count) => this.#measures.lost(count),
      waitUntil: (promise) => node.waitUntil(promise),
    });
  }

  async #send(spans: readonly Span[], collector: Collector, node: ObservedNode): Promise<Delivery> {
    try {
      if (spans.length > 0) {
        const delivery = await collector("/v1/traces", JSON.stringify(tracesBody(this.#resource, spans)));
        if (delivery !== "taken") return delivery;
      }
      const numbers = metricsBody(this.#resource, this.#measures.instruments, this.#start_ms, Date.now());
      // Numbers are totals: what is not taken now is in the next ones.
      await collector("/v1/metrics", JSON.stringify(numbers));
      return "taken";
    } catch (error) {
      const text = reasonOf(error);
      node.log("debug", `telemetry was not taken and is sent again later: ${text}`);
      return "away";
    }
  }
}

/** A request that has ended: its span without what its creation knew, and what is counted of it. */
interface Ended extends Omit<Span, "context" | "parentId" | "kind"> {
  readonly labels: Attributes;
  readonly resends: number;
}

type Sink = (ended: Ended) => void;

/** What the answer was, as both sides tell it. */
function outcomeOf(outcome: number | unknown): Attributes {
  if (typeof outcome === "number") return { "http.response.status_code": outcome };
  return { "error.type": typeOf(outcome) };
}

/** The kind of an error; never its message, which may hold anything. */
function typeOf(error: unknown): string {
  return error instanceof Error ? error.name.slice(0, MAX_TYPE) : "unknown";
}

class ClientSpan implements CallObservation {
  readonly #watch: Stopwatch = new Stopwatch();
  readonly #known: Attributes;
  readonly #labels: Attributes;
  readonly #method: string;
  readonly #service: string;
  readonly #sink: Sink;
  readonly #events: SpanEvent[] = [];
  #provider: string | undefined;
  #resends = 0;

  constructor(request: Request, service: string, sink: Sink) {
    const { origin, pathname } = new URL(request.url);
    this.#method = knownMethod(request.method);
    this.#service = service;
    this.#sink = sink;
    this.#labels = { "http.request.method": this.#method, "selfsame.service": service };
    this.#known = { ...this.#labels, "server.address": `${service}.mesh`, "url.full": origin + pathname };
  }

  attempt(peer: string): void {
    if (this.#provider !== undefined) {
      this.#resends++;
      const attributes = { "selfsame.provider": this.#provider };
      this.#events.push({ at_ms: Date.now(), name: "selfsame.retry", attributes });
    }
    this.#provider = peer;
  }

  answered(status: number): void {
    this.#end(status, status >= 400);
  }

  failed(error: unknown): void {
    this.#end(error, true);
  }

  #end(outcome: unknown, isError: boolean): void {
    const provider = this.#provider === undefined ? {} : { "selfsame.provider": this.#provider };
    const resends = this.#resends === 0 ? {} : { "http.request.resend_count": this.#resends };
    this.#sink({
      name: `${this.#method} ${this.#service}`,
      start_ms: this.#watch.start_ms,
      duration_ms: this.#watch.elapsed_ms,
      attributes: { ...this.#known, ...provider, ...resends, ...outcomeOf(outcome) },
      events: this.#events,
      isError,
      labels: { ...this.#labels, ...provider, ...outcomeOf(outcome) },
      resends: this.#resends,
    });
  }
}

class ServerSpan implements ServeObservation {
  readonly #watch: Stopwatch = new Stopwatch();
  readonly #known: Attributes;
  readonly #labels: Attributes;
  readonly #name: string;
  readonly #context: TraceContext;
  readonly #sink: Sink;

  constructor(request: Request, served: Served, context: TraceContext, sink: Sink) {
    const { service, version, caller } = served;
    const method = knownMethod(request.method);
    this.#name = `${method} ${service}`;
    this.#context = context;
    this.#sink = sink;
    const versioned = version === "" ? {} : { "selfsame.version": version };
    this.#labels = { "http.request.method": method, "selfsame.service": service, ...versioned };
    this.#known = {
      ...this.#labels,
      "url.scheme": "https",
      "url.path": new URL(request.url).pathname,
      "server.address": `${service}.mesh`,
      "selfsame.caller": caller,
    };
  }

  run<T>(handler: () => T): T {
    return contexts().run(this.#context, handler);
  }

  answered(status: number): void {
    this.#end(status, status >= 500);
  }

  failed(error: unknown): void {
    this.#end(error, true);
  }

  #end(outcome: unknown, isError: boolean): void {
    this.#sink({
      name: this.#name,
      start_ms: this.#watch.start_ms,
      duration_ms: this.#watch.elapsed_ms,
      attributes: { ...this.#known, ...outcomeOf(outcome) },
      events: [],
      isError,
      labels: { ...this.#labels, ...outcomeOf(outcome) },
      resends: 0,
    });
  }
}
