import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import type { LogRecord } from "../src/driver/log.ts";
import type { Timer, Timers } from "../src/driver/timers.ts";
import { type NodeMesh, serve } from "../src/entries/node.ts";
import {
  createRpcClient,
  createRpcServer,
  type NodeRpcServer,
  type RpcClient,
  type RpcHandler,
  type RpcServer,
  TICKET_PATH,
} from "../src/entries/rpc-node.ts";
import type { RpcMesh } from "../src/rpc/client.ts";
import type { RpcOrigin, RpcServerOptions } from "../src/rpc/server.ts";
import { member } from "./support.ts";

export const NETWORK = "rpc-test";
export const SERVICE = "echo";
export const KEY: Uint8Array = new Uint8Array(32).fill(7);
/** The caller that tickets are issued to. */
export const CALLER = "ab".repeat(32);

/** Answers with the request. */
export const echo: RpcHandler = ({ payload }) => payload;

/** Encodes a text. */
export function bytes(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

/** Decodes the text of an answer. */
export function textOf({ payload }: { readonly payload: Uint8Array }): string {
  return new TextDecoder().decode(payload);
}

/** Makes a server that ends with the test. */
export function startServer(
  t: TestContext,
  handler: RpcHandler,
  options: Partial<RpcServerOptions> = {},
): { server: NodeRpcServer; records: LogRecord[] } {
  const records: LogRecord[] = [];
  const log = (record: LogRecord): void => {
    records.push(record);
  };
  const base = { network: NETWORK, service: SERVICE, ticketKey: KEY, handler, log };
  const server = createRpcServer({ ...base, ...options });
  t.after(() => server.close());
  return { server, records };
}

/** A mesh in which each service issues tickets, and takes no calls in sessions. */
export function ticketMesh(issue: () => Promise<Uint8Array<ArrayBuffer>>): RpcMesh {
  const fetch: RpcMesh["fetch"] = async (input) => {
    const isTicket = new URL(`${input}`).pathname === TICKET_PATH;
    return isTicket ? new Response(await issue()) : new Response(null, { status: 404 });
  };
  return { allowPrivate: true, fetch };
}

/** Such a mesh that issues tickets of a server, and counts them. */
export class TestMesh implements RpcMesh {
  readonly allowPrivate: boolean = true;
  asked = 0;
  server: RpcServer;
  addresses: readonly string[];

  constructor(server: RpcServer, ...addresses: readonly string[]) {
    this.server = server;
    this.addresses = addresses;
  }

  fetch: RpcMesh["fetch"] = ticketMesh(() => {
    this.asked++;
    return this.server.issueTicket(CALLER, ...this.addresses);
  }).fetch;
}

/** Two members of a ring: who serves and who calls. */
export async function pair(
  t: TestContext,
): Promise<{ provider: NodeMesh; caller: NodeMesh; bootstrap: string }> {
  const { mesh: provider, bootstrap } = await member({ network: NETWORK });
  t.after(() => provider.close());
  const { mesh: caller } = await member({ network: NETWORK, bootstrap });
  t.after(() => caller.close());
  return { provider, caller, bootstrap };
}

/** Makes a client that ends with the test. */
export function startClient(t: TestContext, mesh: RpcMesh): RpcClient {
  const client = createRpcClient({ mesh, log: () => undefined });
  t.after(() => client.close());
  return client;
}

/** Listens on a free port of loopback, for POSTs and for the WebSockets of whoever attaches itself to the server; its URL of WebSockets. */
export async function listenForSockets(
  t: TestContext,
  fetch: (request: Request, origin?: RpcOrigin) => Promise<Response> = async () =>
    new Response(null, { status: 404 }),
): Promise<{ http: Server; url: string }> {
  const http: Server = await serve({ fetch: (request, info) => fetch(request, info), hostname: "127.0.0.1" });
  t.after(() => {
    http.close();
    http.closeAllConnections();
  });
  return { http, url: `ws://127.0.0.1:${(http.address() as AddressInfo).port}/rpc` };
}

/** Serves a server over WebSocket on a free port of loopback; its URL. */
export async function serveSockets(t: TestContext, server: NodeRpcServer): Promise<string> {
  const { http, url } = await listenForSockets(t);
  server.attach(http, "/rpc");
  return url;
}

/** Serves a server over HTTP on a free port of loopback; its URL. */
export async function serveHttp(
  t: TestContext,
  fetch: (request: Request, origin?: RpcOrigin) => Promise<Response>,
): Promise<string> {
  const { url } = await listenForSockets(t, fetch);
  return url.replace("ws:", "http:");
}

/** Timers that a test lets pass. */
export class ManualTimers implements Timers {
  readonly #due: Map<object, { readonly at: number; readonly act: () => void }> = new Map();
  #now = 0;

  after(delay_ms: number, act: () => void): Timer {
    const timer: Timer = { cancel: () => this.#due.delete(timer), unref: () => undefined };
    this.#due.set(timer, { at: this.#now + delay_ms, act });
    return timer;
  }

  pass(time_ms: number): void {
    this.#now += time_ms;
    for (const [timer, { at, act }] of this.#due) {
      if (at > this.#now) continue;
      this.#due.delete(timer);
      act();
    }
  }
}
