import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Span } from "selfsame-apps/observability";

import { traceOf } from "./trace.ts";

function span(
  spanId: string,
  parentId: string,
  kind: Span["kind"],
  start_ms: number,
  more: Partial<Span> = {},
): Span {
  return {
    traceId: "t",
    spanId,
    parentId,
    node: spanId,
    domain: "",
    kind,
    name: "GET x",
    start_ms,
    duration_ms: 5,
    isError: false,
    attributes: {},
    ...more,
  };
}

const way = (spans: Span[]) =>
  traceOf(spans)?.hops.map(({ key, depth, from, to, inside }) => [
    key,
    depth,
    from,
    to,
    inside !== undefined,
  ]);

describe("the way of a request", () => {
  const page = span("page", "", "client", 100, {
    duration_ms: 50,
    attributes: {
      "selfsame.provider": "front",
      "selfsame.service": "handler",
      "http.request.method": "POST",
      "http.response.status_code": 401,
    },
    isError: true,
  });
  const front = span("front", "page", "server", 105, { duration_ms: 40 });
  const ask = span("ask", "front", "client", 110, {
    node: "front",
    attributes: { "selfsame.provider": "check" },
  });
  const again = span("again", "front", "client", 120, {
    node: "front",
    attributes: { "error.type": "NoProvider" },
  });
  const check = span("check", "ask", "server", 111);

  it("has a hop for each request, in their order, whatever the order in which nodes told of them", () => {
    const expected = [
      ["page", 0, "page", "front", true],
      ["ask", 1, "front", "check", true],
      ["again", 1, "front", "", false],
    ];
    assert.deepEqual(way([page, front, ask, again, check]), expected);
    assert.deepEqual(way([check, again, ask, front, page]), expected);
    const trace = traceOf([page, front, ask, again, check]);
    assert.deepEqual([trace?.start_ms, trace?.duration_ms], [100, 50]);
    const [first] = trace?.hops ?? [];
    assert.deepEqual(
      [first?.method, first?.service, first?.outcome, first?.isError],
      ["POST", "handler", "401", true],
    );
    assert.deepEqual(first?.inside, { start_ms: 105, duration_ms: 40 });
    assert.equal(trace?.hops[2]?.outcome, "NoProvider");
  });

  it("shows what is known when a node did not tell", () => {
    assert.deepEqual(way([page, ask]), [
      ["page", 0, "page", "front", false],
      ["ask", 0, "front", "check", false],
    ]);
    const lone = span("lone", "elsewhere", "server", 1, { attributes: { "selfsame.caller": "caller" } });
    assert.deepEqual(way([lone]), [["lone", 0, "caller", "lone", false]]);
    assert.equal(traceOf([]), undefined);
    assert.equal(traceOf([span("x", "", "other", 1)]), undefined);
  });

  it("ends when spans name each other as their cause", () => {
    assert.deepEqual(way([span("a", "b", "client", 1), span("b", "a", "client", 2)]), undefined);
    assert.equal(
      way([span("a", "", "client", 1), span("b", "a", "client", 2), span("b", "b", "client", 3)])?.length,
      3,
    );
  });
});
