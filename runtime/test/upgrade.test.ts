import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { Hono } from "hono";
import {
  type Handler,
  type LogRecord,
  type MeshSocket,
  type NodeMesh,
  type SocketClosed,
  type SocketFailed,
  upgradeWebSocket,
} from "../src/entries/node.ts";
import { leaf, member, type TestNode, until } from "./support.ts";

const UNOWNED = { unowned: true } as const;

const opened = (socket: MeshSocket): Promise<void> =>
  new Promise((resolve, reject) => {
    socket.addEventListener("open", () => resolve());
    socket.addEventListener("error", ({ error }) => reject(error));
  });

const closed = (socket: MeshSocket): Promise<SocketClosed> =>
  new Promise((resolve) => socket.addEventListener("close", resolve));

const nextMessage = (socket: MeshSocket): Promise<unknown> =>
  new Promise((resolve) => socket.addEventListener("message", ({ data }) => resolve(data), { once: true }));

/** Sends back what arrives, and closes when it is told so. */
const echo: Handler = (request, { caller }) => {
  const { socket, response } = upgradeWebSocket(request);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => socket.send(`${caller} ${new URL(request.url).pathname}`);
  socket.onmessage = ({ data }) => {
    if (data === "close") socket.close(4321, "as you like");
    else socket.send(data as string | ArrayBuffer);
  };
  return response;
};

describe("a WebSocket through the mesh", () => {
  let node: TestNode;
  let caller: NodeMesh;
  const log: LogRecord[] = [];

  before(async () => {
    node = await member({ log: (record) => log.push(record) });
    caller = await leaf(node.bootstrap);
    await node.mesh.serve("echo", echo, UNOWNED);
  });
  beforeEach(() => log.splice(0));
  after(async () => {
    await caller.close();
    await node.mesh.close();
  });

  test("carries text and bytes both ways, and has the interface of the standard one", async () => {
    const socket = caller.webSocket("wss://echo.mesh/room", [], UNOWNED);
    const standard: WebSocket = socket;
    assert.equal(standard.readyState, standard.CONNECTING);
    assert.throws(() => socket.send("early"), { name: "InvalidStateError" });
    assert.equal(socket.url, "wss://echo.mesh/room");
    const greeting = nextMessage(socket);
    await opened(socket);
    assert.equal(socket.readyState, socket.OPEN);
    assert.equal(await greeting, `${caller.id} /room`);
    socket.send("text \u20ac");
    assert.equal(await nextMessage(socket), "text \u20ac");
    socket.send(Uint8Array.of(9, 1, 2, 3).subarray(1));
    const blob = await nextMessage(socket);
    assert.ok(blob instanceof Blob);
    assert.deepEqual(new Uint8Array(await blob.arrayBuffer()), Uint8Array.of(1, 2, 3));
    socket.binaryType = "arraybuffer";
    socket.send(new ArrayBuffer(0));
    assert.deepEqual(await nextMessage(socket), new ArrayBuffer(0));
    socket.send("");
    assert.equal(await nextMessage(socket), "");
    assert.throws(() => socket.send(7 as never), TypeError);
    assert.throws(() => socket.close(1005), { name: "InvalidAccessError" });
    assert.throws(() => socket.close(1000, "x".repeat(124)), { name: "SyntaxError" });
    const end = closed(socket);
    socket.close();
    assert.equal(socket.readyState, socket.CLOSING);
    const { code, wasClean } = await end;
    assert.deepEqual([code, wasClean, socket.readyState], [1005, true, socket.CLOSED]);
  });

  test("sends back what arrives as a Blob", async () => {
    const blobs: Handler = (request) => {
      const { socket, response } = upgradeWebSocket(request);
      assert.equal(socket.binaryType, "blob");
      socket.onmessage = ({ data }) => {
        assert.ok(typeof data === "string" || data instanceof Blob);
        socket.send(data);
        if (data === "last") socket.close(4000, "done");
      };
      return response;
    };
    await node.mesh.serve("blobs", blobs, UNOWNED);
    const socket = caller.webSocket("wss://blobs.mesh/", [], UNOWNED);
    socket.binaryType = "arraybuffer";
    const received: string[] = [];
    socket.onmessage = ({ data }) =>
      received.push(typeof data === "string" ? data : Buffer.from(data as ArrayBuffer).toString());
    await opened(socket);
    const bytes = new TextEncoder().encode("view");
    const long = "x".repeat(300_000);
    socket.send(new Blob(["a blob ", "of two"]));
    socket.send("text");
    socket.send(bytes);
    socket.send(bytes.buffer);
    socket.send(new Blob([long]));
    socket.send(new Blob([]));
    assert.equal(socket.bufferedAmount, 13 + 4 + 4 + 4 + long.length);
    bytes.fill(0x21);
    socket.send("last");
    const { code } = await closed(socket);
    assert.deepEqual(received, ["a blob of two", "text", "view", "view", long, "", "last"]);
    assert.deepEqual([code, socket.bufferedAmount], [4000, 0]);
  });

  test("breaks when a Blob cannot be read, or too many bytes of them wait", async () => {
    const unreadable = new Blob(["x"]);
    unreadable.arrayBuffer = () => Promise.reject(new Error("the file is gone"));
    const large = new Blob([new Uint8Array(17 * 1024 * 1024)]);
    const cases: [blobs: Blob[], message: RegExp][] = [
      [[unreadable], /the file is gone/],
      [[large, large], /wait to be sent/],
    ];
    for (const [blobs, message] of cases) {
      const socket = caller.webSocket("wss://echo.mesh/", [], UNOWNED);
      await opened(socket);
      const failed = new Promise<SocketFailed>((resolve) => socket.addEventListener("error", resolve));
      for (const blob of blobs) socket.send(blob);
      assert.match((await failed).message, message);
      assert.equal(socket.bufferedAmount, 0);
    }
  });

  test("carries large messages, whole and in order", async () => {
    const socket = caller.webSocket("wss://echo.mesh/", [], UNOWNED);
    socket.binaryType = "arraybuffer";
    const received: (string | number)[] = [];
    const done = Promise.withResolvers<void>();
    socket.onmessage = ({ data }) => {
      received.push(typeof data === "string" ? data.length : (data as ArrayBuffer).byteLength);
      if (received.length === 5) done.resolve();
    };
    await opened(socket);
    const large = new Uint8Array(4 * 1024 * 1024 + 1).map((_, index) => index % 251);
    socket.send(large);
    assert.ok(socket.bufferedAmount > 0);
    socket.send("x".repeat(1_000_000));
    socket.send(large.subarray(0, 65_536));
    socket.send("y");
    await done.promise;
    assert.deepEqual(received.slice(1), [large.length, 1_000_000, 65_536, 1]);
    assert.equal(socket.bufferedAmount, 0);
    socket.close(1000);
  });

  test("is closed with code and reason by either side", async () => {
    const byService = caller.webSocket("wss://echo.mesh/", [], UNOWNED);
    await opened(byService);
    byService.send("close");
    const { code, reason, wasClean } = await closed(byService);
    assert.deepEqual([code, reason, wasClean], [4321, "as you like", true]);
    const ended = Promise.withResolvers<SocketClosed>();
    const listening: Handler = (request) => {
      const { socket, response } = upgradeWebSocket(request);
      socket.onclose = ended.resolve;
      return response;
    };
    await node.mesh.serve("listening", listening, UNOWNED);
    const byCaller = caller.webSocket("wss://listening.mesh/", [], UNOWNED);
    await opened(byCaller);
    byCaller.close(3000, "enough");
    const end = await ended.promise;
    assert.deepEqual([end.code, end.reason, end.wasClean], [3000, "enough", true]);
  });

  test("speaks a subprotocol that was offered", async () => {
    const choosing: Handler = (request) => {
      assert.equal(request.headers.get("upgrade"), "websocket");
      assert.equal(request.headers.get("x-own"), "kept");
      assert.equal(request.headers.get("sec-websocket-protocol"), "one, two");
      assert.throws(() => upgradeWebSocket(request, { protocol: "three" }), { name: "BadConfig" });
      const { socket, response } = upgradeWebSocket(request, { protocol: "two" });
      assert.throws(() => upgradeWebSocket(request), { name: "BadConfig" });
      socket.onopen = () => socket.send(socket.protocol);
      return response;
    };
    await node.mesh.serve("choosing", choosing, UNOWNED);
    // Whoever passes a request on may pass its handshake on with it.
    const handshake = { "sec-websocket-key": "own", "sec-websocket-version": "8" };
    const init = { ...UNOWNED, headers: { "x-own": "kept", ...handshake } };
    const socket = caller.webSocket("https://choosing.mesh/", ["one", "two"], init);
    const message = nextMessage(socket);
    await opened(socket);
    assert.equal(socket.protocol, "two");
    assert.equal(await message, "two");
    socket.close();
    for (const protocols of [["one", "one"], "a b", ""]) {
      assert.throws(() => caller.webSocket("wss://echo.mesh/", protocols, UNOWNED), { name: "BadConfig" });
    }
    assert.throws(() => caller.webSocket("wss://example.com/"), { message: /a mesh URL/ });
  });

  test("is accepted by a Hono app that answers ordinary requests beside it", async () => {
    const app = new Hono();
    app.get("/chat/:room", (c) => {
      const { socket, response } = upgradeWebSocket(c.req.raw);
      socket.onopen = () => socket.send(`room ${c.req.param("room")}`);
      return response;
    });
    app.get("/plain", (c) => c.text(`plain ${c.req.header("upgrade")}`));
    await node.mesh.serve("app", app.fetch, UNOWNED);
    const socket = caller.webSocket("wss://app.mesh/chat/7", [], UNOWNED);
    assert.equal(await nextMessage(socket), "room 7");
    socket.close();
    const response = await caller.fetch("https://app.mesh/plain", UNOWNED);
    assert.equal(await response.text(), "plain undefined");
  });

  test("breaks when the node of the service closes", async () => {
    const other = await member({ bootstrap: node.bootstrap });
    await other.mesh.serve("short", echo, UNOWNED);
    const socket = caller.webSocket("wss://short.mesh/", [], UNOWNED);
    await opened(socket);
    const failed = new Promise<SocketFailed>((resolve) => socket.addEventListener("error", resolve));
    const end = closed(socket);
    await other.mesh.close();
    assert.equal((await failed).error.name, "Disconnected");
    const { code, wasClean } = await end;
    assert.deepEqual([code, wasClean], [1006, false]);
  });

  /** Why a socket does not open. */
  async function refusal(name: string, init = {}): Promise<[error: string, message: string]> {
    const socket = caller.webSocket(`wss://${name}.mesh/`, [], { ...UNOWNED, ...init });
    const end = closed(socket);
    const error = await opened(socket).then(
      () => assert.fail("it opened"),
      (error: Error) => error,
    );
    const { code, wasClean } = await end;
    assert.deepEqual([code, wasClean, socket.readyState], [1006, false, socket.CLOSED]);
    return [error.name, error.message];
  }

  test("does not open when the service refuses it, or there is none", async () => {
    await node.mesh.serve("refusing", () => new Response("no", { status: 401 }), UNOWNED);
    await node.mesh.serve("private", echo, { ...UNOWNED, allow: [] });
    assert.deepEqual(await refusal("refusing"), [
      "StreamRefused",
      "the service opened no WebSocket: it answered 401",
    ]);
    assert.match((await refusal("private"))[1], /it answered 403/);
    assert.equal((await refusal("nobody"))[0], "NoProvider");
    await node.mesh.serve("slow", () => new Promise(() => undefined), UNOWNED);
    assert.equal((await refusal("slow", { timeout_ms: 200 }))[0], "Deadline");
  });

  test("that a handler accepted and then refused tells its socket so", async () => {
    const failures: SocketFailed[] = [];
    const ends: SocketClosed[] = [];
    const handlers: [status: number, answer: (response: Response) => Response][] = [
      [404, () => new Response(null, { status: 404 })],
      [
        500,
        () => {
          throw new Error("it changed its mind");
        },
      ],
    ];
    for (const [status, answer] of handlers) {
      const handler: Handler = (request) => {
        const { socket, response } = upgradeWebSocket(request);
        socket.onerror = (event) => failures.push(event);
        socket.onclose = (event) => ends.push(event);
        return answer(response);
      };
      await node.mesh.serve("wavering", handler, UNOWNED);
      assert.match((await refusal("wavering"))[1], new RegExp(`it answered ${status}`));
    }
    await until("the sockets have heard", () => ends.length === 2);
    assert.deepEqual(
      failures.map(({ message }) => message),
      ["the handler gave another answer", "it changed its mind"],
    );
    assert.deepEqual(
      ends.map(({ code }) => code),
      [1006, 1006],
    );
  });

  test("delivers nothing after it was closed, but what the other side says last", async () => {
    const flooding: Handler = (request) => {
      const { socket, response } = upgradeWebSocket(request);
      socket.onopen = () => {
        for (const text of ["one", "two", "three"]) socket.send(text);
      };
      return response;
    };
    await node.mesh.serve("flooding", flooding, UNOWNED);
    const socket = caller.webSocket("wss://flooding.mesh/", [], UNOWNED);
    const received: unknown[] = [];
    socket.onmessage = ({ data }) => {
      received.push(data);
      socket.close(1000, "enough");
    };
    assert.deepEqual([(await closed(socket)).code, received], [1000, ["one"]]);
  });

  test("that its handler closes at once breaks", async () => {
    const hasty: Handler = (request) => {
      const { socket, response } = upgradeWebSocket(request);
      socket.close();
      return response;
    };
    await node.mesh.serve("hasty", hasty, UNOWNED);
    const socket = caller.webSocket("wss://hasty.mesh/", [], UNOWNED);
    const failed = new Promise<SocketFailed>((resolve) => socket.addEventListener("error", resolve));
    assert.equal((await failed).error.name, "StreamRefused");
  });

  test("that is accepted when its caller is gone breaks", async () => {
    const reached = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<SocketClosed>();
    const tardy: Handler = async (request) => {
      reached.resolve();
      await new Promise((resolve) => request.signal.addEventListener("abort", resolve));
      const { socket, response } = upgradeWebSocket(request);
      socket.onclose = ended.resolve;
      return response;
    };
    await node.mesh.serve("tardy", tardy, UNOWNED);
    const socket = caller.webSocket("wss://tardy.mesh/", [], UNOWNED);
    await reached.promise;
    socket.close();
    assert.equal((await ended.promise).code, 1006);
  });

  test("gives up the body of an answer that refuses it", async () => {
    const cancelled = Promise.withResolvers<void>();
    const endless = (): Response => {
      const body = new ReadableStream({
        start: (controller) => controller.enqueue(new TextEncoder().encode("no")),
        cancel: () => cancelled.resolve(),
      });
      return new Response(body, { status: 403 });
    };
    await node.mesh.serve("endless", endless, UNOWNED);
    assert.match((await refusal("endless"))[1], /it answered 403/);
    await cancelled.promise;
  });

  test("can be given up before it is open", async () => {
    const reached = Promise.withResolvers<AbortSignal>();
    const never: Handler = (request) => {
      reached.resolve(request.signal);
      return new Promise(() => undefined);
    };
    await node.mesh.serve("never", never, UNOWNED);
    const socket = caller.webSocket("wss://never.mesh/", [], UNOWNED);
    const failed = new Promise<SocketFailed>((resolve) => socket.addEventListener("error", resolve));
    const signal = await reached.promise;
    socket.close();
    assert.equal(socket.readyState, socket.CLOSING);
    assert.equal((await failed).error.name, "Cancelled");
    await until("the handler is told", () => signal.aborted);
  });

  test("counts in its service's limit until it is closed", async () => {
    await node.mesh.serve("one", echo, { ...UNOWNED, limit: 1 });
    const socket = caller.webSocket("wss://one.mesh/", [], UNOWNED);
    await opened(socket);
    assert.match((await refusal("one", { retries: 0 }))[1], /it answered 503/);
    socket.close();
    await closed(socket);
    await until("there is room", async () => {
      const again = caller.webSocket("wss://one.mesh/", [], UNOWNED);
      const isOpen = await opened(again).then(
        () => true,
        () => false,
      );
      again.close();
      return isOpen;
    });
  });

  test("is none where nobody asked for one", async () => {
    const eager: Handler = () => Object.defineProperty(new Response(null), "status", { value: 101 });
    await node.mesh.serve("eager", eager, UNOWNED);
    assert.equal((await caller.fetch("https://eager.mesh/", UNOWNED)).status, 500);
    assert.match(log[0]?.text ?? "", /an answer of status 101/);
    const response = await caller.fetch("https://echo.mesh/", UNOWNED);
    assert.equal(response.status, 500);
    assert.match(log[1]?.text ?? "", /does not ask for a WebSocket/);
    const headers = { upgrade: "websocket" };
    await assert.rejects(caller.fetch("https://echo.mesh/", { ...UNOWNED, headers }), {
      name: "BadConfig",
      message: /use mesh.webSocket/,
    });
    assert.equal(
      (await caller.fetch("https://app.mesh/plain", { ...UNOWNED, method: "HEAD", headers })).status,
      200,
    );
  });
});
