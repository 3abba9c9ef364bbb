import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { type Observability, type Overview, observability, type Span } from "./index.ts";

const id = (start: string): string => start.padEnd(64, "0");
const [one, other] = [id("11"), id("22")];
const TRACE = "0af7651916cd43dd8448eb211c80319c";

const text = (key: string, stringValue: string) => ({ key, value: { stringValue } });
const nanos = (ms: number): string => `${BigInt(Math.round(ms)) * 1_000_000n}`;

function resource(node: string, domain = "deno") {
  return {
    attributes: [
      text("service.instance.id", node),
      text("selfsame.domain", domain),
      text("service.name", "test"),
    ],
  };
}

function traces(node: string, ...spans: object[]) {
  return { resourceSpans: [{ resource: resource(node), scopeSpans: [{ scope: {}, spans }] }] };
}

function span(spanId: string, more: object = {}) {
  return {
    traceId: TRACE,
    spanId: spanId.repeat(16),
    name: "GET check",
    kind: 3,
    startTimeUnixNano: nanos(1_700_000_000_000),
    endTimeUnixNano: nanos(1_700_000_000_012),
    attributes: [
      text("selfsame.service", "check"),
      { key: "http.response.status_code", value: { intValue: "401" } },
    ],
    ...more,
  };
}

/** So many requests that a node counted since its start, of which half took 10 ms and half 100 ms. */
function metrics(node: string, provider: string, count: number, start_ms = Date.now(), status = 200) {
  const point = {
    attributes: [
      text("selfsame.service", "check"),
      text("selfsame.provider", provider),
      { key: "http.response.status_code", value: { intValue: `${status}` } },
    ],
    startTimeUnixNano: nanos(start_ms),
    timeUnixNano: nanos(Date.now()),
    count: `${count}`,
    sum: 1,
    bucketCounts: [count / 2, count / 2, 0].map(String),
    explicitBounds: [0.01, 0.1],
  };
  const metric = { name: "http.client.request.duration", histogram: { dataPoints: [point] } };
  const ignored = { name: "something.else", gauge: { dataPoints: [] } };
  return { resourceMetrics: [{ resource: resource(node), scopeMetrics: [{ metrics: [ignored, metric] }] }] };
}

async function post(
  app: Observability,
  path: string,
  body: unknown,
  caller = one,
  type = "application/json",
) {
  const init = { method: "POST", body: JSON.stringify(body), headers: { "content-type": type } };
  return (await app(new Request(`https://observability.mesh${path}`, init), { caller })).status;
}

async function get<T>(app: Observability, path: string): Promise<T> {
  return (await (await app(new Request(`https://observability.mesh${path}`), { caller: other })).json()) as T;
}

describe("observability", () => {
  it("keeps the spans of a trace, whoever of its nodes told of them, each once", async () => {
    const app = observability();
    assert.equal(await post(app, "/v1/traces", traces(one, span("a"))), 200);
    assert.equal(await post(app, "/v1/traces", traces(one, span("a"))), 200);
    const served = span("b", { kind: 2, parentSpanId: "a".repeat(16), status: { code: 2 } });
    assert.equal(await post(app, "/v1/traces", traces(other, served), other), 200);
    const [trace = []] = await get<Span[][]>(app, "/traces");
    assert.deepEqual(
      trace.map(({ node, domain, kind, parentId, duration_ms, isError }) => [
        node,
        domain,
        kind,
        parentId,
        duration_ms,
        isError,
      ]),
      [
        [one, "deno", "client", "", 12, false],
        [other, "deno", "server", "a".repeat(16), 12, true],
      ],
    );
    assert.equal(trace[0]?.attributes["http.response.status_code"], 401);
    assert.deepEqual(await get(app, `/traces/${TRACE}`), trace);
    const { nodes } = await get<Overview>(app, "/");
    assert.deepEqual(
      nodes.map(({ id, domain, name }) => [id, domain, name]),
      [
        [one, "deno", "test"],
        [other, "deno", "test"],
      ],
    );
  });

  it("counts what was added since a node told last, by provider", async () => {
    const app = observability();
    await post(app, "/v1/metrics", metrics(one, other, 10));
    await post(app, "/v1/metrics", metrics(one, other, 16));
    await post(app, "/v1/metrics", metrics(one, id("33"), 4));
    await post(app, "/v1/metrics", metrics(other, id("33"), 2, Date.now(), 503), other);
    const { services } = await get<Overview>(app, "/");
    const [check] = services;
    assert.equal(check?.name, "check");
    assert.deepEqual([check?.requests, check?.errors], [22, 2]);
    assert.deepEqual(check?.providers, [
      { peer: other, requests: 16, errors: 0 },
      { peer: id("33"), requests: 6, errors: 2 },
    ]);
    assert.equal(
      check?.perSecond.reduce((sum, count) => sum + count, 0),
      22,
    );
    assert.ok(Math.abs((check?.p50_ms ?? 0) - 10) < 0.001);
    assert.ok((check?.p95_ms ?? 0) > 80);
  });

  it("does not take for new what a node counted before, nor a fresh start for nothing", async () => {
    const app = observability();
    const before = Date.now() - 60_000;
    await post(app, "/v1/metrics", metrics(one, other, 1000, before));
    assert.deepEqual((await get<Overview>(app, "/")).services, []);
    await post(app, "/v1/metrics", metrics(one, other, 1004, before));
    await post(app, "/v1/metrics", metrics(one, other, 2));
    assert.equal((await get<Overview>(app, "/")).services[0]?.requests, 6);
  });

  it("believes a peer nothing of another", async () => {
    const app = observability();
    assert.equal(await post(app, "/v1/traces", traces(other, span("a"))), 403);
    assert.equal(await post(app, "/v1/metrics", metrics(other, one, 2)), 403);
    assert.deepEqual(await get(app, "/traces"), []);
    assert.equal(await post(app, "/v1/traces", traces("", span("a"))), 200);
    assert.equal((await get<Span[][]>(app, "/traces"))[0]?.[0]?.node, one);
  });

  it("refuses what is no OTLP, too large or of another type", async () => {
    const app = observability();
    for (const wrong of [
      null,
      [],
      { resourceSpans: 1 },
      { resourceSpans: [null] },
      traces(one, span("x")),
      traces(one, { ...span("a"), traceId: "0" }),
      traces(one, { ...span("a"), startTimeUnixNano: "soon" }),
      traces(one, { ...span("a"), attributes: [1] }),
    ]) {
      const status = await post(app, "/v1/traces", wrong);
      assert.equal(status, Array.isArray(wrong) ? 200 : 400, JSON.stringify(wrong));
    }
    assert.equal(
      await post(app, "/v1/metrics", { resourceMetrics: [{ scopeMetrics: [{ metrics: 1 }] }] }),
      400,
    );
    assert.equal(await post(app, "/v1/traces", {}, one, "text/plain"), 415);
    assert.equal(await post(app, "/v1/traces", "x".repeat(4 * 1024 * 1024)), 413);
    const broken = new Request("https://o.mesh/v1/traces", {
      method: "POST",
      body: "{",
      headers: { "content-type": "application/json" },
    });
    assert.equal((await app(broken, { caller: one })).status, 400);
    assert.deepEqual(await get(app, "/traces"), []);
  });

  it("keeps the latest traces alone", async () => {
    const app = observability();
    for (let index = 0; index < 600; index++) {
      const traceId = `f${index.toString(16).padStart(31, "0")}`;
      await post(app, "/v1/traces", traces(one, span("a", { traceId })));
    }
    const kept = await get<Span[][]>(app, "/traces?limit=100");
    assert.equal(kept.length, 100);
    assert.equal(kept[0]?.[0]?.traceId, `f${(599).toString(16).padStart(31, "0")}`);
    const first = await app(new Request(`https://o.mesh/traces/f${"0".repeat(31)}`), { caller: one });
    assert.equal(first.status, 404);
    assert.equal((await app(new Request("https://o.mesh/traces?limit=x"), { caller: one })).status, 400);
  });
});
