import assert from "node:assert/strict";
import type { Server } from "node:http";
import { connect } from "node:net";
import { after, before, describe, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Hono } from "hono";
import { type MeshClient, mesh } from "../src/entries/hono.ts";
import { type NodeMesh, serve } from "../src/entries/node.ts";
import { leaf, member, type TestNode, turn, until } from "./support.ts";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as () => void;

const UNOWNED = { unowned: true } as const;
const CALLS = 32;

/** Collects what nothing references, also what only a finished turn lets go of. */
async function collectGarbage(): Promise<void> {
  for (let round = 0; round < 5; round++) {
    await turn();
    gc();
  }
}

describe("a signal after garbage was collected", () => {
  let node: TestNode;
  let caller: NodeMesh;
  /** Answers of `feed` that are open. */
  let open = 0;
  /** Requests of `feed` whose signal was not aborted. */
  let listening = 0;

  before(async () => {
    node = await member();
    caller = await leaf(node.bootstrap);
    await node.mesh.serve(
      "feed",
      (request) => {
        open++;
        listening++;
        request.signal.addEventListener("abort", () => listening--);
        const start = (controller: ReadableStreamDefaultController): void =>
          controller.enqueue(new Uint8Array(9));
        return new Response(new ReadableStream({ start, cancel: () => void open-- }));
      },
      UNOWNED,
    );
  });
  after(async () => {
    await caller.close();
    await node.mesh.close();
  });

  type Fetch = MeshClient["fetch"];
  const URL_OF_FEED = "https://feed.mesh/";
  const ways: Record<string, (fetch: Fetch, signal: AbortSignal) => Promise<unknown>> = {
    "an option": (fetch, signal) => fetch(URL_OF_FEED, { ...UNOWNED, signal }),
    "that of a Request": (fetch, signal) => fetch(new Request(URL_OF_FEED, { signal }), UNOWNED),
    "that of a Request whose answer is read": async (fetch, signal) => {
      const { body } = await fetch(new Request(URL_OF_FEED, { signal }), UNOWNED);
      const reader = (body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      return reader.read().then(
        () => assert.fail("it goes on"),
        () => undefined,
      );
    },
    "one of several": (fetch, signal) =>
      fetch(URL_OF_FEED, { ...UNOWNED, signal: AbortSignal.any([signal, new AbortController().signal]) }),
  };

  const bound = (): Fetch => {
    const calls = new Map<string, AbortController>();
    const call = async (request: Request, options: object, ticket: string): Promise<object> => {
      const abort = new AbortController();
      calls.set(ticket, abort);
      return { response: await caller.fetch(request, { ...options, signal: abort.signal }) };
    };
    const stub = { call, cancel: async () => undefined };
    const app = new Hono();
    app.use(mesh(() => ({ idFromName: () => ({}), get: () => stub })));
    let fetch: Fetch | undefined;
    app.get("/", (c) => {
      fetch = c.var.mesh.fetch.bind(c.var.mesh);
      return c.text("");
    });
    app.request("/");
    return (input, init) => (fetch as Fetch)(input, init);
  };

  for (const kind of ["joined", "bound"] as const) {
    for (const [what, ask] of Object.entries(ways)) {
      test(`ends the answers that a ${kind} mesh was given for ${what}`, async () => {
        const fetch: Fetch = kind === "joined" ? (input, init) => caller.fetch(input, init) : bound();
        const abort = new AbortController();
        // The node itself holds what goes on; a Worker what it reads.
        const answers: unknown[] = [];
        const asked = Array.from({ length: CALLS }, async () => {
          const answer = await ask(fetch, abort.signal);
          if (kind === "bound") answers.push(answer);
        });
        await until("all are answered", () => open === CALLS);
        await collectGarbage();
        abort.abort();
        await Promise.all(asked);
        await until("all have ended", () => open === 0 && listening === 0);
        answers.splice(0);
      });
    }
  }

  test("tells a handler that its caller is gone", async () => {
    const abort = new AbortController();
    const told = Promise.withResolvers<void>();
    await node.mesh.serve(
      "told",
      ({ signal }) => {
        signal.addEventListener("abort", () => told.resolve());
        return new Response(new ReadableStream());
      },
      UNOWNED,
    );
    const response = caller.fetch("https://told.mesh/", { ...UNOWNED, signal: abort.signal });
    await response;
    await collectGarbage();
    abort.abort();
    await told.promise;
  });

  test("ends a watch", async () => {
    const abort = new AbortController();
    const watching = caller.watch("feed", { ...UNOWNED, signal: abort.signal });
    await watching.next();
    await collectGarbage();
    abort.abort();
    assert.deepEqual(await watching.next(), { done: true, value: undefined });
  });

  test("ends the calls of a server whose visitor left", async () => {
    const app = (request: Request): Promise<Response> =>
      caller.fetch(URL_OF_FEED, { ...UNOWNED, signal: request.signal });
    const server: Server = await serve({ fetch: app, hostname: "127.0.0.1" });
    const { port } = server.address() as { port: number };
    const socket = connect(port, "127.0.0.1");
    socket.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    await new Promise((resolve) => socket.once("data", resolve));
    await collectGarbage();
    socket.destroy();
    await until("it has ended", () => open === 0);
    server.close();
  });
});
