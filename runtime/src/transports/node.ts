import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer } from "node:http";
import { type Duplex, Readable } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { contentOf } from "../driver/content.ts";
import { MAX_FRAME, type PathHost } from "../driver/paths.ts";
import { guarded, report } from "../guard.ts";
import { asksForWebSocket } from "../websocket/handshake.ts";
import type { TrustedProxies } from "./forwarded.ts";
import { MESH_PATH, offersSubprotocol, SUBPROTOCOL } from "./protocol.ts";
import { carry, type Socket } from "./websocket.ts";

/** Schemes of targets in absolute form. */
const SCHEMES: ReadonlySet<string> = /* @__PURE__ */ new Set(["http:", "https:"]);

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
  // Node leaves out what stands behind a thousand headers, where a proxy appends its own. The size of a head stays bounded.
  server.maxHeadersCount = 0;
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_FRAME,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false),
  });
  const accept = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    const path = pathOf(request);
    if (path !== MESH_PATH) {
      // Without another listener nobody would ever answer.
      const isAlone = server.listenerCount("upgrade") === 1;
      return isAlone ? refuse(socket, path === undefined ? "400 Bad Request" : "404 Not Found") : undefined;
    }
    if (!offersSubprotocol(request.headers["sec-websocket-protocol"]))
      return refuse(socket, "400 Bad Request");
    sockets.handleUpgrade(request, socket, head, (accepted: WebSocket) => {
      const remote = sourceOf(request, proxies);
      carry(accepted as unknown as Socket, host, { dial: 0, kind: "Ordered", remote });
    });
  };
  // Without this every request that offers another protocol would be an upgrade, as those of HTTP/2 over cleartext (RFC 7540, 3.2)
  // with which some clients begin: whoever does not speak it answers as if it were not offered (RFC 9110, 7.8). Node before 22.21
  // knows nothing of it.
  const speaks = server as Server & { shouldUpgradeCallback?: (request: IncomingMessage) => boolean };
  const { shouldUpgradeCallback: others } = speaks;
  const shouldUpgrade = (request: IncomingMessage): boolean => {
    const { method = "", headers } = request;
    if (pathOf(request) === MESH_PATH) return asksForWebSocket(method, headers.upgrade ?? null);
    return server.listenerCount("upgrade") > 1 && (others?.call(server, request) ?? true);
  };
  speaks.shouldUpgradeCallback = shouldUpgrade;
  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    try {
      accept(request, socket, head);
    } catch (error) {
      socket.destroy();
      throw error;
    }
  };
  const listener = guarded("an upgrade", upgrade);
  server.on("upgrade", listener);
  return () => {
    server.off("upgrade", listener);
    if (others !== undefined && speaks.shouldUpgradeCallback === shouldUpgrade)
      speaks.shouldUpgradeCallback = others;
    sockets.close();
  };
}

/** The address from which a request counts. */
export function sourceOf(request: IncomingMessage, proxies: TrustedProxies): string {
  const { headersDistinct, socket } = request;
  return proxies.source(socket.remoteAddress ?? "", (name) => headersDistinct[name]?.join(", "));
}

function refuse(socket: Duplex, status: string): void {
  socket.on("error", () => socket.destroy());
  socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
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
    const headers = new Headers();
    for (const [name, values] of Object.entries(incoming.headersDistinct)) {
      for (const value of values ?? []) headers.append(name, value);
    }
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

/** The path of a request; `undefined` where its target is no URL. */
function pathOf(incoming: IncomingMessage): string | undefined {
  try {
    return urlOf(incoming).pathname;
  } catch {
    return undefined;
  }
}

/** The URL of a request (RFC 9112, 3.3). Throws when its target or host is none, or there are several: neither may bring parts of the other. */
function urlOf({ url: target = "/", headers, headersDistinct }: IncomingMessage): URL {
  if ((headersDistinct.host?.length ?? 0) > 1) throw new TypeError("a request has several hosts");
  const isAbsolute = !target.startsWith("/") && target !== "*";
  const host = new URL(isAbsolute ? target : `http://${headers.host ?? "localhost"}`);
  if (isAbsolute && !SCHEMES.has(host.protocol))
    throw new TypeError("the target of a request is no URL of HTTP");
  if (isAbsolute) return host;
  if (host.href !== `${host.origin}/`) throw new TypeError("the host of a request is no host");
  return new URL(host.origin + (target === "*" ? "" : target));
}
