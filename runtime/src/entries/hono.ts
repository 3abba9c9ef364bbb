import type { Context, MiddlewareHandler } from "hono";
import { MeshError, type Tried } from "../codec/code.ts";
import type { Provider } from "../codec/reply.ts";
import type { WebSocketInit } from "../driver/caller.ts";
import { lengthOf } from "../driver/length.ts";
import { checkName, urlOfSocket } from "../driver/options.ts";
import { type Cancellation, cancellationOf, checkRedirect, refusesRedirects } from "../driver/request.ts";
import { contextOf, issuedContext } from "../driver/serve.ts";
import { type CallOptions, type FetchInit, type NameOptions, splitInit } from "../driver/service.ts";
import type { MeshStatus, ServiceHealth } from "../driver/status.ts";
import { urlOfService } from "../driver/target.ts";
import { MESH_PATH } from "../transports/protocol.ts";
import { asksForWebSocket, checkProtocols, refused } from "../websocket/handshake.ts";
import { NativeConnection, socketOf, TICKET_HEADER } from "../websocket/native.ts";
import { type Established, MeshSocket } from "../websocket/socket.ts";

/** The mesh as an app uses it, whichever platform it runs on. */
export interface MeshClient {
  /** Sends a request to `https://NAME.mesh/path`, like `fetch`. */
  fetch(input: Request | string | URL, init?: FetchInit): Promise<Response>;
  /** A service by its name, shaped like a service binding. */
  service(name: string, options?: CallOptions): { fetch: MeshClient["fetch"] };
  /** Opens a WebSocket to `wss://NAME.mesh/path`, like `new WebSocket`; its event `error` says why there is none. */
  webSocket(url: string | URL, protocols?: string | readonly string[], init?: WebSocketInit): MeshSocket;
  /** Finds who serves a name. */
  find(name: string, options?: NameOptions): Promise<Provider[]>;
  /** What is known of the providers of the names that the node has called lately. */
  health(): Promise<ServiceHealth[]>;
  /** What the node knows of itself and the ring. */
  status(): Promise<MeshStatus>;
  /** What the node has counted, in the text format of Prometheus. */
  metrics(): Promise<string>;
}

/** A joined node of Deno or Node: a client that accepts peers as well. */
export interface ServingMesh extends MeshClient {
  /** A fetch handler that accepts peers at `/.mesh`. */
  handler(app: () => Response): (request: Request, info?: never) => Response | Promise<Response>;
}

/** The stub of a `MeshNode`, as far as the middleware uses it. */
export interface MeshStub {
  fetch(request: Request): Promise<Response>;
  call(request: Request, options: CallOptions, ticket?: string): Promise<unknown>;
  upgrade(request: Request, options: CallOptions, ticket: string): Promise<unknown>;
  cancel(ticket: string): Promise<void>;
  find(name: string, options: NameOptions): Promise<Provider[]>;
  health(): Promise<ServiceHealth[]>;
  status(): Promise<MeshStatus>;
  metrics(): Promise<string>;
}

/** The binding of a namespace of `MeshNode` objects, as far as the middleware uses it. */
export interface MeshNamespace {
  idFromName(name: string): object;
  get(id: never): unknown;
}

/** How the middleware finds nodes. */
export interface MeshOptions {
  /** Names of the nodes in the namespace: the first answers at `/.mesh` and for the app, each at `/.mesh/NAME`. */
  readonly nodes?: readonly string[];
}

declare module "hono" {
  interface ContextVariableMap {
    /** The mesh. */
    mesh: MeshClient;
    /** The peer id of the caller when the request came over the mesh. */
    caller: string | undefined;
  }
}

/** The name of the node when a Worker has one. */
const DEFAULT_NODE = "mesh";

/**
 * Connects a Hono app with the mesh: peers reach the node at `/.mesh`, handlers find it as `c.var.mesh` and the peer
 * that called as `c.var.caller`. `source` gives the binding of a `MeshNode`, or a joined node.
 */
export function mesh(
  source: (c: Context) => MeshNamespace | ServingMesh,
  options: MeshOptions = {},
): MiddlewareHandler {
  const nodes = options.nodes ?? [DEFAULT_NODE];
  const [first] = nodes;
  if (first === undefined) throw new MeshError("BadConfig", "nodes names at least one node");
  return async (c, next) => {
    const given = source(c);
    const { path } = c.req;
    const isMeshPath = path === MESH_PATH || path.startsWith(`${MESH_PATH}/`);
    if ("handler" in given) {
      if (path === MESH_PATH) return given.handler(() => c.notFound() as Response)(c.req.raw, c.env as never);
      c.set("mesh", given);
    } else if (isMeshPath) {
      // Only nodes that are configured: anybody could make objects by asking for names.
      const name = path === MESH_PATH ? first : path.slice(MESH_PATH.length + 1);
      if (!nodes.includes(name)) return c.notFound();
      return stubOf(given, name).fetch(c.req.raw);
    } else {
      c.set("mesh", new BoundMesh(() => stubOf(given, first)));
    }
    c.set("caller", callerOf(c));
    await next();
    return undefined;
  };
}

function stubOf(namespace: MeshNamespace, name: string): MeshStub {
  return namespace.get(namespace.idFromName(name) as never) as MeshStub;
}

/** The caller as the driver knows it, or as the node put it into the props of the entrypoint; never a header. */
function callerOf(c: Context): string | undefined {
  // What wraps an app replaces the request, but hands on what `app.fetch(request, context)` was given.
  const context = contextOf(c.req.raw) ?? issuedContext(c.env);
  if (context !== undefined) return context.caller;
  try {
    const { props } = c.executionCtx as { props?: { caller?: unknown } };
    return typeof props?.caller === "string" ? props.caller : undefined;
  } catch {
    // Hono throws where the platform has no execution context.
    return undefined;
  }
}

/** The mesh through the binding of its node: an isolate itself holds no sockets. */
class BoundMesh implements MeshClient {
  readonly #stub: () => MeshStub;

  constructor(stub: () => MeshStub) {
    this.#stub = stub;
  }

  async fetch(input: Request | string | URL, init: FetchInit = {}): Promise<Response> {
    const { call, request: rest } = splitInit(init);
    const isStream = rest.body instanceof ReadableStream;
    const cancellation = cancellationOf(input, rest);
    // Signals do not pass through a binding.
    const { redirect: _, ...given } = rest;
    const bare = { ...(isStream ? { duplex: "half" } : {}), ...given, signal: null } as RequestInit;
    const isRefused = refusesRedirects(input, rest);
    const request = new Request(input, bare);
    const length = lengthOf(rest.body);
    if (length !== undefined) request.headers.set("content-length", `${length}`);
    const stub = this.#stub();
    if (asksForWebSocket(request.method, request.headers.get("upgrade"))) {
      return upgrade(request, call, cancellation, stub);
    }
    if (cancellation.signal === undefined)
      return checked(responseOf(await stub.call(request, call)), isRefused);
    const ticket = crypto.randomUUID();
    const called = await unlessAborted(cancellation, stub, ticket, () => stub.call(request, call, ticket));
    return endWith(cancellation, await checked(responseOf(called), isRefused));
  }

  webSocket(
    url: string | URL,
    protocols: string | readonly string[] = [],
    init: WebSocketInit = {},
  ): MeshSocket {
    const { headers: given, ...options } = init;
    const target = urlOfSocket(url);
    const headers = new Headers(given);
    headers.set("upgrade", "websocket");
    const offered = checkProtocols([protocols].flat());
    if (offered.length > 0) headers.set("sec-websocket-protocol", offered.join(", "));
    const abort = new AbortController();
    const opening = this.fetch(target, { ...options, headers, signal: abort.signal }).then(established);
    return new MeshSocket(target.href, opening, (error) => abort.abort(error));
  }

  service(name: string, options: CallOptions = {}): { fetch: MeshClient["fetch"] } {
    const known = checkName(name);
    return {
      fetch: async (input, init = {}) => {
        const target = urlOfService(known, input);
        return this.fetch(input instanceof Request ? new Request(target, input) : target, {
          ...options,
          ...init,
        });
      },
    };
  }

  find(name: string, options: NameOptions = {}): Promise<Provider[]> {
    return this.#stub().find(name, options);
  }

  health(): Promise<ServiceHealth[]> {
    return this.#stub().health();
  }

  status(): Promise<MeshStatus> {
    return this.#stub().status();
  }

  metrics(): Promise<string> {
    return this.#stub().metrics();
  }
}

/** The answer of a call through the binding. */
function responseOf(result: unknown): Response {
  const answered = result as
    | { response: Response }
    | { error: { code: number; message: string; tried: readonly Tried[] } };
  if (!("error" in answered)) return answered.response;
  const { code, message, tried } = answered.error;
  throw new MeshError(code, message, { tried });
}

/** The same answer, unless it redirects and that is an error. */
async function checked(response: Response, isRefused: boolean): Promise<Response> {
  try {
    checkRedirect(isRefused, response.status);
    return response;
  } catch (error) {
    await response.body?.cancel();
    throw error;
  }
}

/** Asks for a WebSocket: the object opens it, and then gives it to whoever has the ticket. */
async function upgrade(
  request: Request,
  options: CallOptions,
  cancellation: Cancellation,
  stub: MeshStub,
): Promise<Response> {
  const ticket = crypto.randomUUID();
  const result = await unlessAborted(cancellation, stub, ticket, () =>
    stub.upgrade(request, options, ticket),
  );
  if (!("accepted" in (result as object))) return responseOf(result);
  const headers = { upgrade: "websocket", [TICKET_HEADER]: ticket };
  return stub.fetch(new Request(request.url, { headers }));
}

/** The connection of an answer, if it accepts one. */
async function established(response: Response): Promise<Established> {
  const socket = socketOf(response);
  if (socket !== undefined) {
    const protocol = response.headers.get("sec-websocket-protocol") ?? "";
    return { connection: new NativeConnection(socket), protocol };
  }
  await response.body?.cancel();
  throw refused(response.status);
}

/** Calls, and gives the call up when the signal is aborted. */
async function unlessAborted(
  cancellation: Cancellation,
  stub: MeshStub,
  ticket: string,
  call: () => Promise<unknown>,
): Promise<unknown> {
  const { signal } = cancellation;
  signal?.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = (): void => {
    reject(signal?.reason);
    stub.cancel(ticket).catch(() => undefined);
  };
  signal?.addEventListener("abort", abort, { once: true });
  try {
    return await retained(cancellation, Promise.race([call(), promise]));
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

/** An answer whose body fails when the signal is aborted, whether it is read or not. */
function endWith({ signal, owner }: Cancellation, response: Response): Response {
  if (response.body === null || signal === undefined) return response;
  const reader = response.body.getReader();
  // As long as the body is referenced so is the request whose signal may end it.
  const ending = { owner, fail: (_: unknown): void => undefined };
  const abort = (): void => {
    ending.fail(signal.reason);
    reader.cancel(signal.reason).catch(() => undefined);
  };
  const done = (): void => signal.removeEventListener("abort", abort);
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      start: (controller) => {
        ending.fail = (reason) => controller.error(reason);
      },
      pull: async (controller) => {
        const { value } = await reader.read();
        if (signal.aborted) return;
        if (value !== undefined) return controller.enqueue(value);
        done();
        controller.close();
      },
      cancel: (reason) => {
        done();
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  const { status, headers } = response;
  const encodeBody = headers.has("content-encoding") ? "manual" : "automatic";
  return new Response(body, { status, headers, encodeBody } as ResponseInit);
}

/** What must live as long as a call goes on. */
const inUse: Set<Cancellation> = /* @__PURE__ */ new Set();

/** Keeps what may end some work referenced until it has ended. */
async function retained<T>(cancellation: Cancellation, work: Promise<T>): Promise<T> {
  inUse.add(cancellation);
  try {
    return await work;
  } finally {
    inUse.delete(cancellation);
  }
}
