import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";

import { Collection } from "./collection.ts";
import { countsOf, Malformed, type Source, spansOf } from "./otlp.ts";

export type { NodeSeen, Overview, ProviderLoad, ServiceLoad } from "./collection.ts";
export type { Span } from "./otlp.ts";

/** The largest batch that a node sends has some hundreds of kilobytes. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;
/** Traces of one answer. */
const MAX_TRACES = 100;
const USUAL_TRACES = 20;

/** Answers a request of a peer. */
export type Observability = (request: Request, context: { caller: string }) => Response | Promise<Response>;

/**
 * The service `observability`: nodes send it OTLP as JSON, and it answers with what it has.
 *
 * `POST /v1/traces`, `POST /v1/metrics`: 200, 400 for what is no OTLP, 403 when a peer tells of another one, 413, 415.
 * `GET /`: services with their load, and the nodes that were heard. `GET /traces?limit=20`, `GET /traces/ID`: spans.
 * All of it is in memory, and bounded.
 */
export function observability(): Observability {
  const collection = new Collection();
  const app = new Hono<{ Bindings: { caller: string } }>();
  app.use(async (c, next) => {
    await next();
    c.header("cache-control", "no-store");
  });
  app.use(
    bodyLimit({ maxSize: MAX_BODY_BYTES, onError: (c) => c.json({ error: "the body is too large" }, 413) }),
  );
  app.post("/v1/*", async (c, next) => {
    const type = (c.req.header("content-type") ?? "").split(";", 1).join().trim();
    return type === "application/json" ? next() : c.json({ error: "send OTLP as application/json" }, 415);
  });
  app.post("/v1/traces", async (c) => {
    const batches = spansOf(await c.req.json());
    const own = batches.map(({ source, spans }) => ({ source: ownSource(source, c.env.caller), spans }));
    for (const { source, spans } of own) {
      collection.addSpans(
        source,
        spans.map((span) => ({ ...span, node: source.node })),
        Date.now(),
      );
    }
    return c.json({});
  });
  app.post("/v1/metrics", async (c) => {
    const batches = countsOf(await c.req.json());
    const own = batches.map(({ source, counts }) => ({ source: ownSource(source, c.env.caller), counts }));
    for (const { source, counts } of own) collection.addCounts(source, counts, Date.now());
    return c.json({});
  });
  app.get("/", (c) => c.json(collection.overview(Date.now())));
  app.get("/traces", (c) => {
    const limit = Number(c.req.query("limit") ?? USUAL_TRACES);
    if (!(limit >= 1 && limit <= MAX_TRACES)) return c.json({ error: `limit is 1 to ${MAX_TRACES}` }, 400);
    return c.json(collection.traces(Math.floor(limit)));
  });
  app.get("/traces/:id", (c) => {
    const trace = collection.trace(c.req.param("id"));
    return trace === undefined ? c.json({ error: "this trace is not kept" }, 404) : c.json(trace);
  });
  app.onError((error, c) => {
    if (error instanceof Foreign) return c.json({ error: error.message }, 403);
    const isTheirs = error instanceof Malformed || error instanceof SyntaxError;
    if (!isTheirs) throw error;
    return c.json({ error: `this is no OTLP: ${error.message}` }, 400);
  });
  return (request, { caller }) => app.fetch(request, { caller });
}

/** Somebody tells of another peer. */
class Foreign extends Error {}

/** A peer tells of itself alone: who it is was proved when its session began. */
function ownSource(source: Source, caller: string): Source {
  if (source.node === "" || source.node === caller) return { ...source, node: caller };
  throw new Foreign("a peer tells of itself: service.instance.id is its peer id");
}
