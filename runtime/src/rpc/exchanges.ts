import { MeshError } from "../codec/code.ts";
import type { RpcInput } from "../codec/rpc.ts";
import { Shares } from "../transports/shares.ts";
import { isAcknowledgement } from "./datagram.ts";
import { endpointOf, portOf } from "./endpoint.ts";
import { MAX_BODY } from "./limits.ts";
import type { ServerPort } from "./serving.ts";

/** Most requests that are open, of all sources and of one: each waits for its answer. */
const MAX_OPEN = 4096;
const SOURCE_OPEN: number = MAX_OPEN / 4;
/** Most bytes of requests, of all sources and of one, until the module has them: half of the 128 MB of an isolate, and one longest message. */
const MAX_HELD: number = 4 * MAX_BODY;
const SOURCE_HELD: number = MAX_BODY;
const MAX_PORT = 0xffff;
/** Most requests without an answer, those included whose connections are gone while their calls go on: fewer than ports. */
const MAX_EXCHANGES = 32_768;

/** What clients are told when there is no room for their requests. */
export const CROWDED = "too many requests are under way";

/** A request that has no answer yet, with a port that is its own. */
export interface Exchange {
  readonly source: Uint8Array;
  /** What its head says that it is. */
  readonly id: string;
  readonly sinks: Set<ResponseSink>;
}

/** A connection that has brought a request. */
export interface ResponseSink {
  /** Takes a response; after one that is not final there may be another one. */
  respond(datagram: Uint8Array<ArrayBuffer>, isFinal: boolean): void;
  /** Learns that nothing more comes of a request. */
  ended(exchange: Exchange): void;
  /** Learns that everything under way is lost. */
  lost(error: MeshError): void;
}

/** Gives the engine an input; `stepped` is called when the module has taken it. `false` if it takes none now. */
export type PushInput = (input: RpcInput, stepped: () => void) => boolean;

/** The requests that came over streams, each with a port of its own, by which its responses find the connections that brought it. */
export class Exchanges implements ServerPort {
  /** Requests that connections wait for. */
  readonly open: Shares = new Shares(SOURCE_OPEN, MAX_OPEN);
  /** Bytes of requests until the module has them. */
  readonly held: Shares = new Shares(SOURCE_HELD, MAX_HELD);
  readonly #push: PushInput;
  readonly #byPort: Map<number, Exchange> = new Map();
  /** Those whose calls are being carried out: the module has opened them. */
  readonly #served: Map<string, Exchange> = new Map();
  #lastPort = 0;

  constructor(push: PushInput) {
    this.#push = push;
  }

  /** Gives the module a request from an IP address; its responses go to the sink, and to all others that have brought it. */
  begin(bytes: Uint8Array, id: string, ip: string, sink: ResponseSink): Exchange {
    // It may come again, on another connection or on the same one, whose client asks whether it has arrived.
    const exchange = this.#served.get(id) ?? this.#newExchange(id, ip);
    const { source } = exchange;
    // What has led to neither a call nor a response by then never does.
    const stepped = (): void => {
      if (this.#served.get(id) !== exchange) this.end(source);
    };
    if (!this.#push({ type: "Datagram", source, bytes }, stepped))
      throw new MeshError("Disconnected", "the server starts anew");
    exchange.sinks.add(sink);
    this.#byPort.set(portOf(source), exchange);
    return exchange;
  }

  served(source: Uint8Array): void {
    const exchange = this.#byPort.get(portOf(source));
    if (exchange !== undefined) this.#served.set(exchange.id, exchange);
  }

  send(target: Uint8Array, datagram: Uint8Array): void {
    const sinks = this.#byPort.get(portOf(target))?.sinks;
    if (sinks === undefined) return;
    const isFinal = !isAcknowledgement(datagram);
    const response = datagram.slice() as Uint8Array<ArrayBuffer>;
    for (const sink of sinks) sink.respond(response, isFinal);
    if (isFinal) this.end(target);
  }

  end(source: Uint8Array): void {
    const port = portOf(source);
    const exchange = this.#byPort.get(port);
    if (exchange === undefined) return;
    this.#byPort.delete(port);
    if (this.#served.get(exchange.id) === exchange) this.#served.delete(exchange.id);
    for (const sink of exchange.sinks) sink.ended(exchange);
  }

  lost(error: MeshError): void {
    const exchanges = [...this.#byPort.values()];
    this.#byPort.clear();
    this.#served.clear();
    for (const { sinks } of exchanges) for (const sink of sinks) sink.lost(error);
  }

  #newExchange(id: string, ip: string): Exchange {
    if (this.#byPort.size >= MAX_EXCHANGES) throw new MeshError("TooManyRequests", CROWDED);
    // There are fewer requests than ports.
    do this.#lastPort = (this.#lastPort % MAX_PORT) + 1;
    while (this.#byPort.has(this.#lastPort));
    return { source: endpointOf({ ip, port: this.#lastPort }), id, sinks: new Set() };
  }
}
