import assert from "node:assert/strict";
import type { Server } from "node:http";
import { connect } from "node:net";
import { after, before, beforeEach, describe, type TestContext, test } from "node:test";
import {
  type Handler,
  type LogRecord,
  type MeshSocket,
  type NodeMesh,
  serve,
  upgradeWebSocket,
} from "../src/entries/node.ts";
import { freePort, leaf, member, type TestNode, turn, until } from "./support.ts";

const UNOWNED = { unowned: true } as const;

/** What was printed while nobody could be told. The runner fails a test of whose process an error or promise gets loose. */
function printed(t: TestContext): string[] {
  const lines: string[] = [];
  t.mock.method(console, "error", (...words: unknown[]) => lines.push(words.join(" ")));
  return lines;
}

describe("a process is not ended", () => {
  let node: TestNode;
  let caller: NodeMesh;
  const log: LogRecord[] = [];

  before(async () => {
    node = await member({ log: (record) => log.push(record) });
    caller = await leaf(node.bootstrap);
  });
  beforeEach(() => log.splice(0));
  after(async () => {
    await caller.close();
    await node.mesh.close();
  });

  /** Whether the node of the services still answers. */
  async function lives(): Promise<void> {
    for (let round = 0; round < 5; round++) await turn();
    await node.mesh.serve("alive", () => new Response("alive"), UNOWNED);
    assert.equal(await (await caller.fetch("https://alive.mesh/", UNOWNED)).text(), "alive");
  }

  for (const target of ["//", "///", "http://", "/\\", "*", "http://[", "a b", "//[/"]) {
    test(`by a request for a WebSocket of ${target}`, async () => {
      const port = await freePort();
      const server: Server = await serve({
        fetch: node.mesh.handler(() => new Response("app")),
        port,
        hostname: "127.0.0.1",
      });
      const handshake = "connection: upgrade, close\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n";
      const socket = connect(port, "127.0.0.1");
      socket.write(
        `GET ${target} HTTP/1.1\r\nhost: a\r\n${handshake}sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`,
      );
      let answer = "";
      for await (const bytes of socket) answer += String(bytes);
      assert.match(answer, /^HTTP\/1.1 (200|400) /);
      assert.equal(await (await fetch(`http://127.0.0.1:${port}/`)).text(), "app");
      server.close();
      server.closeAllConnections();
    });
  }

  test("by a body that its caller breaks off, whether its handler reads it or not", async () => {
    const bodies: Promise<unknown>[] = [];
    const handlers: Handler[] = [
      () => new Response("unread"),
      () => new Promise(() => undefined),
      (request) => {
        bodies.push(request.text().catch(() => undefined));
        return new Promise(() => undefined);
      },
      (request) => new Response(request.body),
      // An iteration gives the body back when it fails.
      ({ body }) => {
        const iterate = async (): Promise<void> => {
          for await (const chunk of body as unknown as AsyncIterable<Uint8Array>)
            assert.equal(chunk.length, 9);
        };
        bodies.push(iterate().catch(() => undefined));
        return new Response(new ReadableStream());
      },
    ];
    for (const handler of handlers) {
      const reached = Promise.withResolvers<void>();
      const reaching: Handler = (request, context) => {
        reached.resolve();
        return handler(request, context);
      };
      await node.mesh.serve("broken", reaching, UNOWNED);
      const abort = new AbortController();
      const start = (controller: ReadableStreamDefaultController): void =>
        controller.enqueue(new Uint8Array(9));
      const init = { ...UNOWNED, method: "POST", body: new ReadableStream({ start }), signal: abort.signal };
      const answer = caller.fetch("https://broken.mesh/", init).then((response) => response.text());
      await reached.promise;
      abort.abort();
      await assert.rejects(answer);
      await lives();
    }
    await Promise.all(bodies);
  });

  const failing: Record<string, (socket: MeshSocket) => void> = {
    "its onmessage": (socket) => {
      socket.onmessage = () => {
        throw new Error("it throws");
      };
    },
    "an asynchronous one": (socket) => {
      socket.onmessage = async () => {
        throw new Error("it rejects");
      };
    },
    "an added one": (socket) =>
      socket.addEventListener("message", () => {
        throw new Error("it throws");
      }),
    "an object": (socket) =>
      socket.addEventListener("message", {
        handleEvent: async () => Promise.reject(new Error("it rejects")),
      }),
  };
  for (const [what, listen] of Object.entries(failing)) {
    test(`by a listener of a WebSocket that fails: ${what}`, async (t) => {
      const lines = printed(t);
      const open: Handler = (request) => {
        const { socket, response } = upgradeWebSocket(request);
        listen(socket);
        socket.addEventListener("message", () => socket.send("heard"));
        return response;
      };
      await node.mesh.serve("failing", open, UNOWNED);
      const socket = caller.webSocket("wss://failing.mesh/", [], UNOWNED);
      const heard = new Promise((resolve) => socket.addEventListener("message", resolve));
      socket.onopen = () => socket.send("hello");
      await heard;
      socket.close();
      await lives();
      assert.match(lines.join("\n"), /a listener of a WebSocket failed Error: it (throws|rejects)/);
    });
  }

  test("and a listener can be removed and is added once", async () => {
    const socket = caller.webSocket("wss://nobody.mesh/", [], UNOWNED);
    let [once, never] = [0, 0];
    const count = (): void => {
      once++;
    };
    const removed = { handleEvent: (): number => ++never };
    socket.addEventListener("error", count);
    socket.addEventListener("error", count);
    socket.addEventListener("close", removed);
    socket.removeEventListener("close", removed);
    await new Promise((resolve) => socket.addEventListener("close", resolve));
    assert.deepEqual([once, never], [1, 0]);
  });

  test("by hooks of the node that fail", async (t) => {
    const lines = printed(t);
    const rejecting = async (): Promise<never> => Promise.reject(new Error("the hook rejects"));
    const other = await leaf(node.bootstrap, { onEvent: rejecting, log: rejecting, logLevel: "debug" });
    other.onEvent(rejecting);
    await other.close();
    await lives();
    assert.match(lines.join("\n"), /the log hook failed Error: the hook rejects/);
  });

  test("by what a handler promises for later", async (t) => {
    const lines = printed(t);
    const later: Handler = (_, { waitUntil }) => {
      waitUntil(Promise.reject(new Error("too late")));
      return new Response("now");
    };
    await node.mesh.serve("later", later, UNOWNED);
    assert.equal(await (await caller.fetch("https://later.mesh/", UNOWNED)).text(), "now");
    await lives();
    assert.match(lines.join("\n"), /waitUntil failed Error: too late/);
  });

  test("by an app of a server that fails, and the log is not flooded", async (t) => {
    const lines = printed(t);
    const server: Server = await serve({
      fetch: () => Promise.reject(new Error("the app is broken")),
      hostname: "127.0.0.1",
    });
    const { port } = server.address() as { port: number };
    for (let request = 0; request < 30; request++) {
      assert.equal((await fetch(`http://127.0.0.1:${port}/`)).status, 500);
    }
    assert.ok(lines.length >= 10 && lines.length < 30, `${lines.length} lines`);
    server.close();
    server.closeAllConnections();
    await until("it is closed", () => !server.listening);
  });
});
