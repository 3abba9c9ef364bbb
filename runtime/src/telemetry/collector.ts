import { within } from "../driver/deadline.ts";
import type { ObservedNode } from "../driver/observe.ts";
import type { Timers } from "../driver/timers.ts";
import type { Delivery } from "./exporter.ts";

/** A collector that takes longer is taken for gone. */
const TIMEOUT_MS = 10_000;
/** Answers after which the same batch may be sent again (OTLP, "Retryable Response Codes"). */
const RETRYABLE: ReadonlySet<number> = /* @__PURE__ */ new Set([429, 502, 503, 504]);
/** No part of the trace that is told of: telling of it would never end. */
const UNTRACED = "00-00000000000000000000000000000001-0000000000000001-00";

/** Takes telemetry: `path` is that of OTLP, such as `/v1/traces`. */
export type Collector = (path: string, body: string) => Promise<Delivery>;

/** A collector outside the mesh, at an address of OTLP over HTTP such as `http://localhost:4318`. */
export function endpointCollector(
  endpoint: string,
  headers: Readonly<Record<string, string>>,
  timers: Timers,
): Collector {
  const base = endpoint.replace(/\/+$/, "");
  return (path, body) => deliver((init) => fetch(base + path, init), headers, body, timers);
}

/** A service of the mesh that collects. */
export interface CollectingService {
  /** Its name. */
  readonly name: string;
  /** Whether it belongs to nobody. */
  readonly unowned?: boolean | undefined;
  /** Public key of its owner, in place of the one that the node is configured with. */
  readonly owner?: string | undefined;
}

/** The providers of a service, found by its name. */
export function serviceCollector({ name, ...whose }: CollectingService, node: ObservedNode): Collector {
  return (path, body) =>
    deliver(
      (init) => node.fetch(`https://${name}.mesh${path}`, { ...init, ...whose }),
      { traceparent: UNTRACED },
      body,
      node.timers,
    );
}

async function deliver(
  send: (init: RequestInit) => Promise<Response>,
  headers: Readonly<Record<string, string>>,
  body: string,
  timers: Timers,
): Promise<Delivery> {
  const late = (): Error => new Error("the collector did not answer in time");
  return within({ timeout_ms: TIMEOUT_MS, late, timers }, async (signal) => {
    const response = await send({
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body,
      signal,
      redirect: "manual",
    });
    await response.body?.cancel();
    if (response.ok) return "taken";
    return RETRYABLE.has(response.status) ? "away" : "refused";
  });
}
