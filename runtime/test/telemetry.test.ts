import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, describe, type TestContext, test } from "node:test";
import type { Observer } from "../src/driver/observe.ts";
import { platformTimers } from "../src/driver/timers.ts";
import type { NodeMesh, WebSocketInit } from "../src/entries/node.ts";
import { type Delivery, Exporter } from "../src/telemetry/exporter.ts";
import {
  jsonLogger,
  readContext,
  type TelemetryOptions,
  telemetry,
  traced,
  traceHeaders,
} from "../src/telemetry/index.ts";
import { Counter, Histogram } from "../src/telemetry/metrics.ts";
import { prometheusText } from "../src/telemetry/prometheus.ts";
import type { Span } from "../src/telemetry/span.ts";
import { leaf, member, mockClocks, OWNER_SEED, type TestNode, until } from "./support.ts";

const UNOWNED = { unowned: true } as const;

/** A span as the collector of these tests reads it. */
interface SeenSpan {
  traceId: string;
  spanId: string;
  parentId: string | undefined;
  kind: number;
  name: string;
  node: string;
  attributes: Record<string, unknown>;
  events: string[];
  isError: boolean;
}

interface AnyValue {
  stringValue?: string;
  intValue?: string;
  boolValue?: boolean;
}
interface KeyValue {
  key: string;
  value: AnyValue;
}

const attributesOf = (list: KeyValue[]): Record<string, unknown> =>
  Object.fromEntries(
    list.map(({ key, value: { stringValue, intValue, boolValue } }) => [
      key,
      stringValue ?? (intValue === undefined ? boolValue : Number(intValue)),
    ]),
  );

/** A collector over HTTP that keeps what it gets. */
class TestCollector {
  readonly bodies: { path: string; text: string; headers: Record<string, unknown> }[] = [];
  status = 200;
  #server: Server | undefined;

  async start(): Promise<string> {
    const server = createServer(async (request, answer) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      if (this.status === 200) {
        const text = Buffer.concat(chunks).toString();
        this.bodies.push({ path: request.url ?? "", text, headers: request.headers });
      }
      answer.writeHead(this.status, { "content-type": "application/json" }).end("{}");
    });
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server?.close();
  }

  get spans(): SeenSpan[] {
    return spansOf(this.bodies.filter(({ path }) => path === "/v1/traces").map(({ text }) => text));
  }
}

function spansOf(bodies: string[]): SeenSpan[] {
  return bodies.flatMap((text) => {
    const { resourceSpans } = JSON.parse(text);
    return resourceSpans.flatMap(
      ({
        resource,
        scopeSpans,
      }: {
        resource: { attributes: KeyValue[] };
        scopeSpans: { spans: never[] }[];
      }) => {
        const node = attributesOf(resource.attributes)["service.instance.id"];
        return scopeSpans.flatMap(({ spans }) =>
          spans.map((span: Record<string, never>) => ({
            ...span,
            node,
            parentId: span.parentSpanId,
            attributes: attributesOf(span.attributes ?? []),
            events: (span.events ?? ([] as { name: string }[])).map(({ name }: { name: string }) => name),
            isError: (span.status as { code?: number } | undefined)?.code === 2,
          })),
        );
      },
    );
  });
}

const only = (spans: SeenSpan[], name: string, kind: number): SeenSpan => {
  const found = spans.filter((span) => span.name === name && span.kind === kind);
  assert.equal(found.length, 1, `${found.length} spans ${name}`);
  return found[0] as SeenSpan;
};

const SERVER = 2;
const CLIENT = 3;

describe("a request through three nodes", () => {
  const collector = new TestCollector();
  let endpoint: string;
  let front: TestNode;
  let back: TestNode;
  let caller: NodeMesh;

  const follow = (more: TelemetryOptions = {}): Observer =>
    telemetry({
      endpoint,
      service: false,
      intervalMs: 5,
      headers: { authorization: "Bearer top-secret" },
      ...more,
    });

  before(async () => {
    endpoint = await collector.start();
    front = await member({ telemetry: follow({ name: "front" }), domain: "here" });
    back = await member({ telemetry: follow(), bootstrap: front.bootstrap });
    caller = await leaf(front.bootstrap, { telemetry: follow() });
    await back.mesh.serve("check", () => new Response("no", { status: 401 }), { ...UNOWNED, version: "2" });
    await front.mesh.serve(
      "handler",
      async (request) => {
        await new Promise((resolve) => setTimeout(resolve, 1));
        const answer = await front.mesh.fetch("https://check.mesh/secret-free?token=hidden", UNOWNED);
        return Response.json({ seen: request.headers.get("traceparent"), status: answer.status });
      },
      UNOWNED,
    );
  });
  after(async () => {
    await caller.close();
    await back.mesh.close();
    await front.mesh.close();
    collector.stop();
  });

  test("is one trace, each span below the one that caused it", async () => {
    const headers = { "x-password": "hunter2" };
    const answer = await caller.fetch("https://handler.mesh/path?q=private", { headers, ...UNOWNED });
    const { seen } = (await answer.json()) as { seen: string };
    await until("all four spans are told", () => collector.spans.length === 4);
    const { spans } = collector;
    const first = only(spans, "GET handler", CLIENT);
    const second = only(spans, "GET handler", SERVER);
    const third = only(spans, "GET check", CLIENT);
    const fourth = only(spans, "GET check", SERVER);
    assert.equal(new Set(spans.map(({ traceId }) => traceId)).size, 1);
    assert.deepEqual(
      [first.parentId, second.parentId, third.parentId, fourth.parentId],
      [undefined, first.spanId, second.spanId, third.spanId],
    );
    assert.deepEqual(
      [first.node, second.node, third.node, fourth.node],
      [caller.id, front.mesh.id, front.mesh.id, back.mesh.id],
    );
    assert.equal(seen, `00-${second.traceId}-${second.spanId}-01`, "the handler sees its own span");
    assert.deepEqual(third.attributes, {
      "http.request.method": "GET",
      "selfsame.service": "check",
      "server.address": "check.mesh",
      "url.full": "https://check.mesh/secret-free",
      "selfsame.provider": back.mesh.id,
      "http.response.status_code": 401,
    });
    assert.equal(third.isError, true, "for its caller 401 is an error");
    assert.equal(fourth.isError, false, "for the service it is none");
    assert.equal(fourth.attributes["selfsame.version"], "2");
    assert.equal(fourth.attributes["selfsame.caller"], front.mesh.id);
  });

  test("goes on with the trace of whoever sent it, and passes on what others put into it", async () => {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const tracestate = "vendor=a:b, other@tenant=1";
    await caller.fetch("https://check.mesh/", { headers: { traceparent, tracestate }, ...UNOWNED });
    const ofTrace = (): SeenSpan[] =>
      collector.spans.filter(({ traceId }) => traceId === "0af7651916cd43dd8448eb211c80319c");
    await until("both spans are told", () => ofTrace().length === 2);
    assert.equal(only(ofTrace(), "GET check", CLIENT).parentId, "b7ad6b7169203331");
    const texts = collector.bodies.map(({ text }) => text).join("");
    assert.ok(texts.includes('"traceState":"vendor=a:b,other@tenant=1"'));
  });

  test("that is not recorded is told of by nobody, and counted all the same", async () => {
    const traceparent = "00-11111111111111111111111111111111-2222222222222222-00";
    await caller.fetch("https://check.mesh/", { method: "DELETE", headers: { traceparent }, ...UNOWNED });
    const text = await caller.metrics();
    assert.match(
      text,
      /http_client_request_duration_seconds_count\{[^}]*http_request_method="DELETE"[^}]*\} 1\n/,
    );
    await caller.fetch("https://check.mesh/", { method: "PUT", ...UNOWNED });
    await until("a later span is told", () => collector.spans.some(({ name }) => name === "PUT check"));
    assert.ok(!collector.spans.some(({ name }) => name === "DELETE check"));
  });

  test("leaves no header, query or key in what is told, logged or counted", async () => {
    const texts = [
      await caller.metrics(),
      await front.mesh.metrics(),
      ...collector.bodies.map(({ text }) => text),
    ];
    for (const secret of ["hunter2", "hidden", "private", "top-secret"]) {
      assert.ok(!texts.some((text) => text.includes(secret)), secret);
    }
    assert.equal(collector.bodies[0]?.headers.authorization, "Bearer top-secret");
  });

  test("that fails tells why by its code", async () => {
    await assert.rejects(caller.fetch("https://nobody.mesh/", UNOWNED), { name: "NoProvider" });
    await until("the span is told", () => collector.spans.some(({ name }) => name === "GET nobody"));
    const span = only(collector.spans, "GET nobody", CLIENT);
    assert.equal(span.attributes["error.type"], "NoProvider");
    assert.equal(span.isError, true);
  });

  test("that is sent again tells so", async () => {
    const failing = await member({ bootstrap: front.bootstrap });
    await failing.mesh.serve("shaky", () => new Response("down", { status: 503 }), UNOWNED);
    await back.mesh.serve("shaky", () => new Response("up"), UNOWNED);
    const resent = (): SeenSpan | undefined =>
      collector.spans.find(({ attributes }) => attributes["http.request.resend_count"] === 1);
    await until("a request is sent again", async () => {
      const answer = await caller.fetch("https://shaky.mesh/", { policy: "random", ...UNOWNED });
      assert.equal(await answer.text(), "up");
      return resent() !== undefined;
    });
    assert.equal(resent()?.attributes["selfsame.provider"], back.mesh.id);
    assert.deepEqual(resent()?.events, ["selfsame.retry"]);
    assert.match(await caller.metrics(), /selfsame_client_resends_total\{.*selfsame_service="shaky"\} [1-9]/);
    await failing.mesh.close();
  });

  test("is not delayed by a collector that is away, and is told of when that is back", async () => {
    collector.status = 503;
    await caller.fetch("https://check.mesh/", { method: "HEAD", ...UNOWNED });
    collector.status = 200;
    await until("the span is told", () => collector.spans.some(({ name }) => name === "HEAD check"));
  });

  test("outside a mesh carries the trace with the headers that a handler asks for", async () => {
    let inside = new Headers();
    await front.mesh.serve(
      "outward",
      async () => {
        await null;
        inside = traceHeaders();
        return new Response();
      },
      UNOWNED,
    );
    await caller.fetch("https://outward.mesh/", UNOWNED);
    assert.match(inside.get("traceparent") ?? "", /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    assert.deepEqual([...traceHeaders()], []);
  });
});

describe("services that collect", () => {
  test("are found by name and owner, and nobody else is told", async () => {
    const stolen: string[] = [];
    const told: string[] = [];
    const owner = await member({ ownerSeed: OWNER_SEED, telemetry: telemetry({ intervalMs: 5 }) });
    const thief = await member({ bootstrap: owner.bootstrap, ownerSeed: "22".repeat(32) });
    for (const options of [{}, UNOWNED]) {
      await thief.mesh.serve(
        "observability",
        async (request) => {
          stolen.push(await request.text());
          return new Response("{}");
        },
        options,
      );
    }
    await owner.mesh.serve("observability", async (request) => {
      if (new URL(request.url).pathname === "/v1/traces") told.push(await request.text());
      return new Response("{}");
    });
    await owner.mesh.serve("echo", () => new Response("x"), UNOWNED);
    const caller = await leaf(owner.bootstrap, {
      owner: owner.mesh.ownerKey,
      telemetry: telemetry({ intervalMs: 5 }),
    });
    await caller.fetch("https://echo.mesh/", UNOWNED);
    await until("both sides told", () => spansOf(told).length === 2);
    assert.deepEqual(
      spansOf(told)
        .map(({ node }) => node)
        .sort(),
      [owner.mesh.id, caller.id].sort(),
    );
    assert.deepEqual(stolen, []);
    assert.ok(!spansOf(told).some(({ name }) => name.includes("observability")), "telling is not told of");
    for (const mesh of [caller, thief.mesh, owner.mesh]) await mesh.close();
  });

  test("cost nothing where no owner is known, and a request nothing while nobody serves them", async () => {
    const alone = await member({ telemetry: telemetry({ intervalMs: 1 }) });
    await alone.mesh.serve("echo", () => new Response("x"), UNOWNED);
    assert.equal(await (await alone.mesh.fetch("https://echo.mesh/", UNOWNED)).text(), "x");
    assert.match(await alone.mesh.metrics(), /http_server_request_duration_seconds_count\{.*\} 1\n/);
    await alone.mesh.close();
  });
});

describe("a node without telemetry", () => {
  test("counts nothing and adds no header", async () => {
    const { mesh } = await member();
    await mesh.serve("echo", (request) => new Response(request.headers.get("traceparent")), UNOWNED);
    assert.equal(await (await mesh.fetch("https://echo.mesh/", UNOWNED)).text(), "");
    await assert.rejects(mesh.metrics(), { name: "BadConfig", message: /selfsame\/telemetry/ });
    await mesh.close();
  });
});

describe("options", () => {
  test("that are wrong are named", async () => {
    assert.throws(() => telemetry({ sample: 2 }), { name: "BadConfig", message: /sample/ });
    assert.throws(() => telemetry({ intervalMs: -1 }), { name: "BadConfig", message: /intervalMs/ });
    assert.throws(() => telemetry({ endpoint: "collector" }), { name: "BadConfig", message: /endpoint/ });
    const shared = telemetry();
    const { mesh } = await member({ telemetry: shared });
    await assert.rejects(member({ telemetry: shared }), { name: "BadConfig", message: /one for each/ });
    await mesh.close();
  });
});

describe("W3C trace context", () => {
  const context = (traceparent: string, tracestate?: string): ReturnType<typeof readContext> =>
    readContext(new Headers({ traceparent, ...(tracestate === undefined ? {} : { tracestate }) }));
  const TRACE = "0af7651916cd43dd8448eb211c80319c";
  const SPAN = "b7ad6b7169203331";

  test("is read as the recommendation says", () => {
    const read = { traceId: TRACE, spanId: SPAN, isSampled: true, state: "" };
    assert.deepEqual(context(`00-${TRACE}-${SPAN}-01`), read);
    assert.deepEqual(context(`00-${TRACE}-${SPAN}-00`), { ...read, isSampled: false });
    assert.deepEqual(context(`cc-${TRACE}-${SPAN}-01-what-comes-later`), read);
    assert.equal(context(`00-${TRACE}-${SPAN}-01`, "a=1,,b@c=2 ")?.state, "a=1,b@c=2");
  });

  test("that breaks a rule is none", () => {
    for (const wrong of [
      "",
      `ff-${TRACE}-${SPAN}-01`,
      `00-${TRACE}-${SPAN}-01-more`,
      `00-${TRACE.toUpperCase()}-${SPAN}-01`,
      `00-${"0".repeat(32)}-${SPAN}-01`,
      `00-${TRACE}-${"0".repeat(16)}-01`,
      `00-${TRACE}-${SPAN}`,
      `cc-${TRACE}-${SPAN}-01.what`,
    ]) {
      assert.equal(context(wrong), undefined, wrong);
    }
    for (const wrong of [
      "a",
      "A=1",
      `a=${"x".repeat(257)}`,
      `${"a=1,".repeat(33)}`,
      `a=${"b".repeat(600)}`,
    ]) {
      assert.equal(context(`00-${TRACE}-${SPAN}-01`, wrong)?.state, "", wrong);
    }
  });

  test("is handed on by `traced` where the platform does not follow calls", async () => {
    const sent: Headers[] = [];
    const sender = {
      name: "kept",
      fetch: async (_: Request | string | URL, init?: RequestInit) => {
        sent.push(new Headers(init?.headers));
        return new Response();
      },
      service(_: string) {
        return { fetch: this.fetch };
      },
      webSocket(url: string | URL, protocols?: string | readonly string[], init?: WebSocketInit) {
        sent.push(new Headers(init?.headers));
        return `${url} ${protocols}`;
      },
    };
    const traceparent = `00-${TRACE}-${SPAN}-01`;
    const within = traced(sender, new Request("https://x/", { headers: { traceparent, tracestate: "a=1" } }));
    await within.fetch("https://check.mesh/");
    await within.service("check").fetch("/", { headers: { "x-a": "1" } });
    await within.fetch("https://check.mesh/", {
      headers: { traceparent: `00-${TRACE}-${"1".repeat(16)}-01` },
    });
    const options = { headers: { "x-a": "2" } };
    assert.equal(within.webSocket("wss://check.mesh/", "chat", options), "wss://check.mesh/ chat");
    assert.equal(within.name, "kept");
    assert.deepEqual(
      sent.map((headers) => [headers.get("traceparent"), headers.get("tracestate"), headers.get("x-a")]),
      [
        [traceparent, "a=1", null],
        [traceparent, "a=1", "1"],
        [`00-${TRACE}-${"1".repeat(16)}-01`, null, null],
        [traceparent, "a=1", "2"],
      ],
    );
  });
});

describe("an exporter", () => {
  const span = (name: string): Span => ({
    context: { traceId: "", spanId: "", isSampled: true, state: "" },
    parentId: undefined,
    name,
    kind: "client",
    start_ms: 0,
    duration_ms: 0,
    attributes: {},
    events: [],
    isError: false,
  });

  /** An exporter whose deliveries the test decides, under a clock of its own. */
  function exporter(t: TestContext): {
    exporter: Exporter;
    batches: string[][];
    deliver: (delivery: Delivery) => Promise<void>;
    lost: () => number;
  } {
    mockClocks(t, ["setTimeout", "Date"], 1_000_000);
    const batches: string[][] = [];
    let lost = 0;
    let answer = Promise.withResolvers<Delivery>();
    const made = new Exporter({
      interval_ms: 1000,
      timers: platformTimers,
      send: (spans) => {
        batches.push(spans.map(({ name }) => name));
        return answer.promise;
      },
      lost: (count) => {
        lost += count;
      },
      waitUntil: () => undefined,
    });
    const deliver = async (delivery: Delivery): Promise<void> => {
      const { resolve } = answer;
      answer = Promise.withResolvers<Delivery>();
      resolve(delivery);
      for (let turn = 0; turn < 10; turn++) await null;
    };
    return { exporter: made, batches, deliver, lost: () => lost };
  }

  test("gathers spans, and sends one batch at a time", async (t) => {
    const { exporter: made, batches, deliver, lost } = exporter(t);
    for (const name of ["a", "b"]) made.add(span(name));
    t.mock.timers.tick(999);
    assert.deepEqual(batches, []);
    t.mock.timers.tick(1);
    made.add(span("c"));
    t.mock.timers.tick(5000);
    assert.deepEqual(batches, [["a", "b"]]);
    await deliver("taken");
    t.mock.timers.tick(1000);
    assert.deepEqual(batches, [["a", "b"], ["c"]]);
    await deliver("refused");
    assert.equal(lost(), 1, "what is refused for good is lost");
  });

  test("keeps the latest while nobody takes them, pauses longer and longer, and counts the others", async (t) => {
    const { exporter: made, batches, deliver, lost } = exporter(t);
    for (let index = 0; index < 3000; index++) made.add(span(`${index}`));
    assert.equal(lost(), 3000 - 2048);
    t.mock.timers.tick(1000);
    assert.equal(batches[0]?.length, 512);
    await deliver("away");
    t.mock.timers.tick(999);
    assert.equal(batches.length, 1);
    t.mock.timers.tick(1);
    assert.equal(batches.length, 2);
    assert.equal(batches.at(-1)?.[0], "952", "the oldest that is kept comes first");
    await deliver("away");
    for (const pause_ms of [2000, 4000, 8000]) {
      const before: number = batches.length;
      t.mock.timers.tick(pause_ms - 1001);
      made.touch();
      t.mock.timers.tick(1000);
      assert.equal(batches.length, before, "the pause lasts, and no timer waits for its end");
      t.mock.timers.tick(60_000);
      assert.equal(batches.length, before);
      made.touch();
      t.mock.timers.tick(1000);
      assert.equal(batches.length, before + 1, "the next request after it is told with what waits");
      await deliver("away");
    }
    assert.equal(lost(), 3000 - 2048);
  });

  test("that is closed sends what it has, within its time", async (t) => {
    const { exporter: made, batches, deliver } = exporter(t);
    made.add(span("last"));
    const closed = made.close(100);
    while (batches.length === 0) await null;
    await deliver("taken");
    await closed;
    made.add(span("too late"));
    t.mock.timers.tick(10_000);
    assert.deepEqual(batches, [["last"]]);
    t.mock.timers.reset();
    const { exporter: hung } = exporter(t);
    hung.add(span("x"));
    const given = hung.close(100);
    t.mock.timers.tick(100);
    await given;
  });
});

describe("numbers", () => {
  test("are told as Prometheus reads them", () => {
    const durations = new Histogram({ name: "a.duration", help: "Two\nlines.", unit: "s" });
    for (const seconds of [0.001, 0.3, 99]) durations.record(seconds, { who: 'x"\\\n' });
    const gauge = new Counter("gauge", { name: "b", help: "B.", unit: "1" });
    const text = prometheusText([durations, gauge], { node: "n" });
    assert.match(text, /^# HELP a_duration_seconds Two\\nlines\.\n# TYPE a_duration_seconds histogram\n/);
    assert.ok(text.includes('a_duration_seconds_bucket{node="n",who="x\\"\\\\\\n",le="0.005"} 1\n'));
    assert.ok(text.includes('a_duration_seconds_bucket{node="n",who="x\\"\\\\\\n",le="10"} 2\n'));
    assert.ok(text.includes('a_duration_seconds_bucket{node="n",who="x\\"\\\\\\n",le="+Inf"} 3\n'));
    assert.ok(!text.includes("# TYPE b"), "what has no series is not told of");
  });

  test("stay bounded, whatever callers make up", () => {
    const counter = new Counter("counter", { name: "c", help: "C.", unit: "1" });
    for (let index = 0; index < 2000; index++) counter.add(1, { name: `${index}` });
    const series = counter.series();
    assert.equal(series.length, 513);
    assert.deepEqual(series.at(-1), { attributes: { "otel.metric.overflow": true }, value: 2000 - 512 });
  });
});

test("log records are lines of JSON, with the trace of the handler that they belong to", async () => {
  const lines: string[] = [];
  const node = await member({
    log: jsonLogger({ write: (line) => lines.push(line) }),
    telemetry: telemetry(),
  });
  await node.mesh.serve(
    "broken",
    () => {
      throw new Error("broken on purpose");
    },
    UNOWNED,
  );
  assert.equal((await node.mesh.fetch("https://broken.mesh/", UNOWNED)).status, 500);
  await node.mesh.close();
  const record = JSON.parse(lines.find((line) => line.includes("broken on purpose")) ?? "{}") as Record<
    string,
    string
  >;
  assert.deepEqual([record.level, record.code], ["error", "HandlerFailed"]);
  assert.match(record.time ?? "", /^\d{4}-\d\d-\d\dT.*Z$/);
  assert.match(record.trace_id ?? "", /^[0-9a-f]{32}$/);
});
