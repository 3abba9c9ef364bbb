import type { NodeStatus } from "../driver/observe.ts";
import { Counter, Histogram, type Instrument } from "./metrics.ts";
import type { Attributes, Span } from "./span.ts";

/** All that is counted of a node. */
export class Measures {
  readonly #durations: Readonly<Record<Span["kind"], Histogram>> = {
    client: new Histogram({
      name: "http.client.request.duration",
      help: "Time until answers to requests of this node began.",
      unit: "s",
    }),
    server: new Histogram({
      name: "http.server.request.duration",
      help: "Time until requests to services of this node were answered whole.",
      unit: "s",
    }),
  };
  readonly #active: Counter = new Counter("gauge", {
    name: "http.server.active_requests",
    help: "Requests to services of this node that are not answered yet.",
    unit: "{request}",
  });
  readonly #resends: Counter = new Counter("counter", {
    name: "selfsame.client.resends",
    help: "Requests of this node that were sent again, to another provider.",
    unit: "{request}",
  });
  readonly #lost: Counter = new Counter("counter", {
    name: "selfsame.telemetry.lost_spans",
    help: "Spans that no collector took.",
    unit: "{span}",
  });
  /** Everything, in the order in which it is told. */
  get instruments(): readonly Instrument[] {
    const { client, server } = this.#durations;
    return [client, server, this.#active, this.#resends, this.#lost];
  }

  /** A request to a service of the node began. */
  began(service: string): void {
    this.#active.add(1, { "selfsame.service": service });
  }

  /** It ended. */
  ended(service: string): void {
    this.#active.add(-1, { "selfsame.service": service });
  }

  /** A request of either kind ended. */
  request(kind: Span["kind"], seconds: number, labels: Attributes, resends: number): void {
    this.#durations[kind].record(seconds, labels);
    if (resends > 0) {
      this.#resends.add(resends, { "selfsame.service": labels["selfsame.service"] ?? "" });
    }
  }

  /** Spans were lost. */
  lost(count: number): void {
    if (count > 0) this.#lost.add(count);
  }
}

/** What a node tells of itself. */
export function nodeInstruments(status: NodeStatus): Instrument[] {
  const { joined, successors, fingers, peers, paths, objects, counters } = status;
  const node = new Counter("gauge", {
    name: "selfsame.node",
    help: "What the node knows: members that it names, peers with a session, open paths, associations that it stores.",
    unit: "1",
  });
  const numbers = {
    joined: joined ? 1 : 0,
    successors: successors.length,
    fingers: fingers.length,
    sessions: peers.length,
    paths,
    objects,
  };
  for (const [what, value] of Object.entries(numbers)) node.set(value, { what });
  const errors = new Counter("counter", {
    name: "selfsame.errors",
    help: "Errors of the core since its start, by code.",
    unit: "{error}",
  });
  for (const [code, count] of Object.entries(counters)) errors.set(count, { code });
  return [node, errors];
}
