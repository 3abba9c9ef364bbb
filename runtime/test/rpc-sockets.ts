import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { type ClientOptions, WebSocket, WebSocketServer } from "ws";
import type { Timers } from "../src/driver/timers.ts";
import { createRpcClient } from "../src/entries/rpc-node.ts";
import type { RpcCallOptions } from "../src/rpc/call-options.ts";
import type { RpcClient } from "../src/rpc/client.ts";
import type { RpcHandler } from "../src/rpc/handler.ts";
import { MAX_BODY } from "../src/rpc/limits.ts";
import type { RpcServer, RpcServerOptions } from "../src/rpc/server.ts";
import { SERVICE, serveSockets, startServer, TestMesh } from "./rpc-support.ts";
import { until } from "./support.ts";

export const PROTOCOL = "selfsame-rpc.1";
export const MIB = 1024 * 1024;
export const STATELESS = { idempotent: true, stateless: true } as const;
export const BEHIND_PROXY = { ...STATELESS, trustedProxies: ["127.0.0.1"] } as const;
export const ANSWER = 0x62;
export const REJECTION = 0x63;
export const echo: RpcHandler = ({ payload }) => payload;

/** A socket that a test speaks over, and what came on it. */
export class Talk {
  readonly socket: WebSocket;
  readonly received: Buffer[] = [];
  /** The code with which it was closed. */
  readonly closed: Promise<number>;

  constructor(url: string, headers: ClientOptions["headers"] = {}) {
    this.socket = new WebSocket(url, PROTOCOL, { headers, perMessageDeflate: false });
    this.closed = new Promise((resolve) => this.socket.once("close", resolve));
    this.socket.on("error", () => undefined);
    this.socket.on("message", (data: Buffer, isBinary) => {
      assert.ok(isBinary);
      this.received.push(data);
    });
  }

  static async open(t: TestContext, url: string, headers: ClientOptions["headers"] = {}): Promise<Talk> {
    const talk = new Talk(url, headers);
    t.after(() => talk.socket.terminate());
    await once(talk.socket, "open");
    return talk;
  }

  /** Returns the next message. */
  async next(): Promise<Buffer> {
    await until("a message came", () => this.received.length > 0);
    return this.received.shift() ?? assert.fail();
  }
}

/** The fields of a handshake. */
export const HANDSHAKE = {
  connection: "upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
  "sec-websocket-protocol": PROTOCOL,
};

/** A server of sockets that answers nothing by itself. */
export async function silent(t: TestContext): Promise<{ sockets: WebSocketServer; url: string }> {
  const sockets = new WebSocketServer({
    port: 0,
    host: "127.0.0.1",
    handleProtocols: () => PROTOCOL,
    maxPayload: MAX_BODY,
  });
  await once(sockets, "listening");
  t.after(() => {
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
  });
  return { sockets, url: `ws://127.0.0.1:${(sockets.address() as AddressInfo).port}/rpc` };
}

/** The datagram of a call that is idempotent, with a ticket of a server. */
export async function requestOf(t: TestContext, server: RpcServer, text = "ping"): Promise<Buffer> {
  const { sockets, url } = await silent(t);
  const client = createRpcClient({ mesh: new TestMesh(server, url), log: () => undefined });
  const connected = once(sockets, "connection");
  call(client, text, { idempotent: true }).catch(() => undefined);
  const [socket] = (await connected) as [WebSocket];
  const [request] = (await once(socket, "message")) as [Buffer];
  client.close();
  return request;
}

export async function call(client: RpcClient, text: string, options: RpcCallOptions = {}): Promise<string> {
  const { payload } = await client.call(SERVICE, new TextEncoder().encode(text), options);
  return new TextDecoder().decode(payload);
}

/** A handler whose calls are answered when the test says so. */
export function held(): {
  handler: RpcHandler;
  begun: Promise<void>;
  answer: () => void;
  calls: () => number;
} {
  const begun = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<void>();
  let calls = 0;
  const handler: RpcHandler = async ({ payload }) => {
    calls++;
    begun.resolve();
    await answered.promise;
    return payload;
  };
  return { handler, begun: begun.promise, answer: () => answered.resolve(), calls: () => calls };
}

/** Timers that go off when the test says so. */
export function manualTimers(): { timers: Timers; fire: () => void } {
  const due = new Set<() => void>();
  const after: Timers["after"] = (_, act) => {
    due.add(act);
    return { cancel: () => void due.delete(act), unref: () => undefined };
  };
  const fire = (): void => {
    for (const act of [...due]) {
      due.delete(act);
      act();
    }
  };
  return { timers: { after }, fire };
}

export async function serve(
  t: TestContext,
  handler: RpcHandler,
  options: Partial<RpcServerOptions> = STATELESS,
): Promise<{ server: RpcServer; url: string }> {
  const { server } = startServer(t, handler, options);
  return { server, url: await serveSockets(t, server) };
}
