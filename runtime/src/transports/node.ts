import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { contentOf } from "../driver/content.ts";
import { MAX_FRAME, type PathHost } from "../driver/paths.ts";
import { guarded, report } from "../guard.ts";
import type { TrustedProxies } from "./forwarded.ts";
import { fieldsOf, urlOf } from "./node-request.ts";
import { MESH_PATH, offersSubprotocol, SUBPROTOCOL } from "./protocol.ts";
import { acceptUpgrades, refuseUpgrade } from "./upgrades.ts";
import { carry, type Socket } from "./websocket.ts";

/** What a fetch handler is told of a request's connection, as `@hono/node-server` tells it too. */
export interface NodeInfo {
  /** The request as Node knows it. */
  readonly incoming?: IncomingMessage;
  /** The answer as Node knows it. */
  readonly outgoing?: ServerResponse;
}

/** Answers HTTP requests. */
export type NodeFetch = (request: Request, info?: NodeInfo) => Response | Promise<Response>;

/** How `serve` listens. */
export interface ServeOptions {
  /** Answers requests; one that `mesh.handler` made accepts peers as well. */
  readonly fetch: NodeFetch & { attach?: (server: Server) => void };
  /** Port; any free one unless given. */
  readonly port?: number;
  /** Address to listen at; all unless given. */
  readonly hostname?: string;
}

/** Accepts the WebSockets of peers at `/.mesh` of a server; other upgrades are left to other listeners. */
export function acceptSockets(server: Server, host: PathHost, proxies: TrustedProxies): () => void {
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_FRAME,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false),
  });
  const stop = acceptUpgrades(server, MESH_PATH, (request, socket, head) => {
    if (!offersSubprotocol(request.headers["sec-websocket-protocol"])) return refuseUpgrade(socket, 400);
    sockets.handleUpgrade(request, socket, head, (accepted: WebSocket) => {
      const remote = sourceOf(request, proxies);
      carry(accepted as unknown as Socket, host, { dial: 0, kind: "Ordered", remote });
    });
  });
  return () => {
    stop();
    sockets.close();
  };
}

/** The address from which a request counts. */
export function sourceOf(request: IncomingMessage, proxies: TrustedProxies): string {
  const { headersDistinct, socket } = request;
  return proxies.source(socket.remoteAddress ?? "", (name) => headersDistinct[name]?.join(", "));
}

/** Listens for HTTP and, when `fetch` is a handler of a mesh, for peers. Resolves when it listens. */
export function serve({ fetch, port = 0, hostname }: ServeOptions): Promise<Server> {
  const server = createServer(
    guarded("a request", async (incoming: IncomingMessage, outgoing: ServerResponse) => {
      // Whoever writes hears of it as well.
      outgoing.on("error", () => undefined);
      try {
        await answer(fetch, incoming, outgoing);
      } catch (error) {
        report("a request", error);
        if (outgoing.headersSent) outgoing.destroy();
        else fail(outgoing);
      }
    }),
  );
  fetch.attach?.(server);
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, hostname, () => {
      server.off("error", reject);
      resolve(server);
    });
  });
}

/** Answers 500 in place of what cannot be sent, whose head may be the reason. */
function fail(outgoing: ServerResponse): void {
  for (const name of outgoing.getHeaderNames()) outgoing.removeHeader(name);
  outgoing.writeHead(500).end();
}

async function answer(fetch: NodeFetch, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const request = requestOf(incoming, outgoing);
  if (request === undefined) {
    outgoing.writeHead(400).end();
    return;
  }
  const response = await fetch(request, { incoming, outgoing });
  outgoing.statusCode = response.status;
  const { body, isDecoded } = await contentOf(response);
  outgoing.setHeaders(headersOf(response, isDecoded, body !== null || incoming.method === "HEAD"));
  if (body === null || incoming.method === "HEAD") {
    outgoing.end();
    // Nobody waits for a source that takes long to stop, or minds one that failed.
    body?.cancel().catch(() => undefined);
    return;
  }
  await send(body, outgoing);
}

/** The fields of an answer on a connection; one with no body says so, unless it may say the length of what it stands for. */
function headersOf(
  { status, headers: given }: Response,
  isDecoded: boolean,
  mayHaveLength: boolean,
): Headers {
  const headers = new Headers(given);
  // What `fetch` was told of its own connection, where a handler hands its answer on.
  for (const name of ["keep-alive", "transfer-encoding"]) headers.delete(name);
  if (headers.get("connection")?.toLowerCase() === "keep-alive") headers.delete("connection");
  if (isDecoded) headers.delete("content-encoding");
  // The client would wait for such bytes, or take them from the next answer (RFC 9112, 6.3).
  const isLengthTrue = status === 304 || (mayHaveLength && status !== 204 && status !== 205);
  if (isDecoded || !isLengthTrue) headers.delete("content-length");
  return headers;
}

/** Sends the body of an answer, and its head with the first bytes if these are there at once: each write wakes the client. */
async function send(body: ReadableStream<Uint8Array>, outgoing: ServerResponse): Promise<void> {
  // The client would take the next answer for the rest of one that is shorter than its head says.
  outgoing.strictContentLength = true;
  const reader = body.getReader();
  // The client goes away, or has gone: what is being read ends.
  const stop = (): void => {
    reader.cancel().catch(() => undefined);
  };
  outgoing.once("close", stop);
  if (outgoing.destroyed) stop();
  try {
    const first = reader.read();
    if (!(await isThereAtOnce(first))) outgoing.flushHeaders();
    for (let { done, value } = await first; !done; { done, value } = await reader.read()) {
      if (!outgoing.write(value)) await drained(outgoing);
    }
    outgoing.end();
  } catch {
    stop();
    // The body failed: the connection is cut off, after what came before.
    if (!outgoing.headersSent) outgoing.flushHeaders();
    setImmediate(() => outgoing.destroy());
  }
}

/** Whether something settles before other events are looked at. */
function isThereAtOnce(promise: Promise<unknown>): Promise<boolean> {
  const { promise: isThere, resolve } = Promise.withResolvers<boolean>();
  const late = setImmediate(() => resolve(false));
  const settled = (): void => {
    clearImmediate(late);
    resolve(true);
  };
  promise.then(settled, settled);
  return isThere;
}

/** Waits until more may be written, or the connection has ended. */
async function drained(outgoing: ServerResponse): Promise<void> {
  if (outgoing.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const events = ["drain", "close"] as const;
  for (const event of events) outgoing.once(event, resolve);
  await promise;
  for (const event of events) outgoing.off(event, resolve);
}

/** The request as Fetch knows it; `undefined` when its target is no URL or it is none that Fetch takes. */
function requestOf(incoming: IncomingMessage, outgoing: ServerResponse): Request | undefined {
  try {
    const url = urlOf(incoming);
    const headers = fieldsOf(incoming);
    const method = incoming.method ?? "GET";
    const abort = new AbortController();
    const init = { method, headers, signal: abort.signal };
    const request =
      method === "GET" || method === "HEAD"
        ? new Request(url, init)
        : new Request(url, { ...init, body: Readable.toWeb(incoming), duplex: "half" } as RequestInit);
    // The signal of a request that nobody references would not be aborted.
    const ends = { request, abort };
    outgoing.once("close", () => {
      if (!outgoing.writableFinished) ends.abort.abort();
    });
    return request;
  } catch {
    return undefined;
  }
}
