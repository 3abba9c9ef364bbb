import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { cors } from "hono/cors";
import { secureHeaders } from "hono/secure-headers";
import { mesh } from "../src/entries/hono.ts";
import {
  type CallContext,
  type Handler,
  type MeshSocket,
  type NodeMesh,
  upgradeWebSocket,
} from "../src/entries/node.ts";
import { leaf, member, type TestNode } from "./support.ts";

const UNOWNED = { unowned: true } as const;

describe("a service behind middleware", () => {
  let node: TestNode;
  let caller: NodeMesh;
  let other: NodeMesh;

  before(async () => {
    node = await member({ log: () => undefined });
    [caller, other] = await Promise.all([leaf(node.bootstrap), leaf(node.bootstrap)]);
  });
  after(async () => {
    for (const mesh of [caller, other, node.mesh]) await mesh.close();
  });

  const nextMessage = (socket: MeshSocket): Promise<unknown> =>
    new Promise((resolve, reject) => {
      socket.addEventListener("message", ({ data }) => resolve(data), { once: true });
      socket.addEventListener("error", ({ error }) => reject(error));
    });

  const greet = (request: Request): Response => {
    const { socket, response } = upgradeWebSocket(request);
    socket.onopen = () => socket.send("welcome");
    return response;
  };

  test("accepts a WebSocket whose answer is copied and given fields", async () => {
    const app = new Hono();
    app.use(cors(), secureHeaders());
    app.use(async (c, next) => {
      await next();
      c.header("x-after", "set");
      c.res = new Response(c.res.body, c.res);
      c.res.headers.set("x-copied", "yes");
    });
    app.get("/chat", (c) => greet(c.req.raw));
    await node.mesh.serve("copied", app.fetch, UNOWNED);
    const socket = caller.webSocket("wss://copied.mesh/chat", [], UNOWNED);
    assert.equal(await nextMessage(socket), "welcome");
    socket.close();
    const fields = await answerFields("copied", "/chat");
    assert.deepEqual([fields.get("x-after"), fields.get("x-copied")], ["set", "yes"]);
    assert.equal(fields.get("access-control-allow-origin"), "*");
    assert.equal(fields.get("selfsame-accept"), null);
  });

  /** The fields with which a WebSocket is accepted, as a Worker sees them. */
  async function answerFields(name: string, path: string): Promise<Headers> {
    const seen = Promise.withResolvers<Headers>();
    const pair = class {
      0 = { addEventListener: () => undefined, accept: () => undefined, close: () => undefined };
      1 = this[0];
    };
    const global = globalThis as { WebSocketPair?: unknown; Response: typeof Response };
    const Original = global.Response;
    global.WebSocketPair = pair;
    global.Response = class extends Original {
      constructor(body?: BodyInit | null, init: ResponseInit = {}) {
        if (init.status === 101) seen.resolve(new Headers(init.headers));
        super(body, init.status === 101 ? {} : init);
      }
    };
    try {
      await caller.fetch(`https://${name}.mesh${path}`, { ...UNOWNED, headers: { upgrade: "websocket" } });
      return await seen.promise;
    } finally {
      global.Response = Original;
      delete global.WebSocketPair;
    }
  }

  test("accepts none for another handler's mark, a caller's, or an answer with another status or body", async () => {
    let first: Response | undefined;
    const keep: Handler = (request) => {
      const response = greet(request);
      first ??= new Response(null, response);
      return response;
    };
    await node.mesh.serve("first", keep, UNOWNED);
    const socket = caller.webSocket("wss://first.mesh/", [], UNOWNED);
    await nextMessage(socket);
    const mark = first?.headers.get("selfsame-accept") ?? "";
    assert.match(mark, /^[0-9a-f-]{36}$/);
    const refusing: Record<string, [Handler, RegExp]> = {
      "another's": [(request) => new Response(null, greet(request) && first), /it answered 204/],
      replayed: [() => new Response(null, first), /it answered 204/],
      echoed: [
        ({ headers }) => new Response(null, { status: 204, headers: [...headers] }),
        /it answered 204/,
      ],
      "with a status": [
        (request) => new Response("no", { status: 403, headers: greet(request).headers }),
        /403/,
      ],
      "with a body": [
        (request) => new Response("no", { headers: greet(request).headers }),
        /it answered 200/,
      ],
    };
    for (const [what, [handler, message]] of Object.entries(refusing)) {
      await node.mesh.serve("refusing", handler, UNOWNED);
      const headers = { "selfsame-accept": mark };
      const refused = caller.webSocket("wss://refusing.mesh/", [], { ...UNOWNED, headers });
      await assert.rejects(nextMessage(refused), { message }, what);
      const plain = await caller
        .fetch("https://refusing.mesh/", { ...UNOWNED, headers })
        .catch(() => undefined);
      assert.equal(plain?.headers.get("selfsame-accept") ?? null, null, what);
    }
    socket.close();
  });

  /** An app that tells who called, wrapped so that its requests are others than the handler's. */
  const inner = (): Hono => {
    const app = new Hono();
    app.use(mesh(() => node.mesh));
    app.all("*", async (c) => c.text(`${c.var.caller ?? "nobody"} ${await c.req.text()}`));
    return app;
  };
  const wrapped: Record<string, () => Hono> = {
    "as it is": inner,
    "bodyLimit()": () => new Hono().use(bodyLimit({ maxSize: 99 })).route("/", inner()),
    "app.mount()": () => new Hono().mount("/", inner().fetch),
    "app.mount() twice": () => new Hono().mount("/", new Hono().mount("/", inner().fetch).fetch),
    "new Request()": () =>
      new Hono()
        .use(async (c, next) => {
          c.req.raw = new Request(c.req.raw, { headers: { "x-caller": "me" } });
          await next();
        })
        .route("/", inner()),
  };
  for (const [what, wrap] of Object.entries(wrapped)) {
    test(`knows its caller: ${what}`, async () => {
      const app = wrap();
      await node.mesh.serve("who", app.fetch, UNOWNED);
      for (const from of [caller, other]) {
        const headers = { caller: "forged", "selfsame-caller": "forged" };
        const init = { ...UNOWNED, method: "POST", body: "body", headers };
        assert.equal(await (await from.fetch("https://who.mesh/", init)).text(), `${from.id} body`);
      }
    });

    test(`believes nobody else: ${what}`, async () => {
      const app = wrap();
      const forged: CallContext = {
        caller: caller.id,
        assurance: "session",
        env: {},
        waitUntil: () => undefined,
      };
      const answers: string[] = [];
      const copying: Handler = async (_, context) => {
        const request = (): Request =>
          new Request("https://who.mesh/", { headers: { caller: context.caller } });
        for (const env of [forged, { ...context }, Object.create(context), undefined, { env: context }]) {
          answers.push(await (await app.fetch(request(), env)).text());
        }
        return new Response("done");
      };
      await node.mesh.serve("copying", copying, UNOWNED);
      await (await caller.fetch("https://copying.mesh/", UNOWNED)).text();
      assert.deepEqual(new Set(answers), new Set(["nobody "]));
    });
  }
});
