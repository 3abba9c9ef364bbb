import type { Overview, Span } from "selfsame-apps/observability";

import { type Trace, traceOf } from "./trace.ts";

/** The service that nodes tell of their requests. */
export const COLLECTOR = "observability";
/** More requests would not be looked at. */
const MAX_TRACES = 12;

/** What has been told of requests in the ring. */
export type Collected = { overview: Overview; traces: Trace[] };

/** Asks the service that collects; `undefined` while nobody serves it. */
export async function collect(
  fetch: (name: string, path: string) => Promise<Response>,
): Promise<Collected | undefined> {
  try {
    const [overview, spans] = await Promise.all([
      read<Overview>(fetch(COLLECTOR, "/")),
      read<Span[][]>(fetch(COLLECTOR, `/traces?limit=${MAX_TRACES}`)),
    ]);
    const traces = spans.map(traceOf).filter((trace) => trace !== undefined);
    return { overview, traces: traces.toSorted((a, b) => b.start_ms - a.start_ms) };
  } catch {
    return undefined;
  }
}

async function read<T>(asked: Promise<Response>): Promise<T> {
  const response = await asked;
  if (!response.ok) throw new Error(`${COLLECTOR} answered ${response.status}`);
  return (await response.json()) as T;
}
