import { codeNumber, MeshError } from "../codec/code.ts";
import { toHex } from "../codec/hex.ts";
import {
  decodeRequestHead,
  encodeResponseHead,
  type HeaderList,
  MAX_HEAD,
  MAX_HEADERS,
  type RequestHead,
} from "../codec/http.ts";
import { problem } from "../codec/problem.ts";
import { FramedConnection } from "../websocket/framed.ts";
import { type Offered, offeredBy, withoutHandshake } from "../websocket/handshake.ts";
import { ACCEPT_FIELD, type Accepted, Offer } from "../websocket/upgrade.ts";
import { contentOf } from "./content.ts";
import { faultOf, hasNoBody, headerList, headersOf } from "./http.ts";
import { declaredLength, Measure } from "./length.ts";
import type { Logger } from "./log.ts";
import type { Observer } from "./observe.ts";
import type { MeshStream } from "./streams.ts";

/** How sure it is who called: `session` by a handshake, `ticket` by a ticket that was issued to the peer. */
export type Assurance = "session" | "ticket";

/** What a handler is told beside the request. */
export interface CallContext<Env = unknown> {
  /** The caller's peer id, 64 hex digits. */
  readonly caller: string;
  /** How sure that is. */
  readonly assurance: Assurance;
  /** The platform's environment: bindings in Workers, else empty. */
  readonly env: Env;
  /** Keeps the node awake until the promise settles, after the answer. */
  waitUntil(promise: Promise<unknown>): void;
}

/** Answers the requests to a service. */
export type Handler<Env = unknown> = (
  request: Request,
  context: CallContext<Env>,
) => Response | Promise<Response>;

/** Decides whether a peer may make a request, which `request` makes without its body. */
export type Gate = (caller: string, request: () => Request) => boolean | Promise<boolean>;

/** For how long the first bytes or the end of a request are awaited: a handler waits no longer for a caller who sends neither. */
const BODY_WAIT_MS = 5_000;
/** Methods of which recipients expect a body. */
const UPLOADS: ReadonlySet<string> = /* @__PURE__ */ new Set(["PATCH", "POST", "PUT"]);

const contexts: WeakMap<Request, CallContext> = /* @__PURE__ */ new WeakMap();
/** The contexts that handlers were given: nobody else can make one. */
const issued: WeakSet<object> = /* @__PURE__ */ new WeakSet();
/** Those of requests that `allow` has let pass. */
const gated: WeakSet<object> = /* @__PURE__ */ new WeakSet();

/**
 * Who made a request, if it came over the mesh to a handler of this process. It knows the very `Request` object, so no
 * header can forge it.
 */
export function contextOf(request: Request): CallContext | undefined {
  return contexts.get(request);
}

/** The context itself if it is one that a handler of this process was given, and no copy of it. */
export function issuedContext(value: unknown): CallContext | undefined {
  const isIssued = typeof value === "object" && value !== null && issued.has(value);
  return isIssued ? (value as CallContext) : undefined;
}

/** Whether `allow` of the name decides who makes such requests. */
export function isGated(context: CallContext): boolean {
  return gated.has(context);
}

/** How the requests to a name are answered. */
export interface EndpointParts {
  /** The name. */
  readonly name: string;
  /** Answers. */
  readonly handler: Handler;
  /** Who may call; everybody unless given. */
  readonly allow: Gate | undefined;
  /** Most requests that are answered at a time. */
  readonly limit: number;
  /** The version that answers; may be empty. */
  readonly version: string;
}

/** What is around the handlers of a node. */
export interface Surroundings {
  /** What handlers are told beside who called. */
  readonly context: Pick<CallContext, "assurance" | "env" | "waitUntil">;
  /** The log. */
  readonly logger: Logger;
  /** Follows the requests. */
  readonly observer: Observer | undefined;
}

/** An answer that can be sent. */
interface Encoded {
  readonly status: number;
  /** The head, with the length of the body if that is known. */
  readonly head: (length?: number) => Uint8Array;
  readonly body: ReadableStream<Uint8Array> | null;
  /** The length that the handler declares. */
  readonly length: number | undefined;
  /** What becomes of the stream, if the answer accepts a WebSocket. */
  readonly accepted: Accepted | undefined;
}

/** Answers the requests to a name. */
export class Endpoint {
  readonly #parts: EndpointParts;
  readonly #context: Surroundings["context"];
  readonly #logger: Logger;
  readonly #observer: Observer | undefined;
  #running = 0;
  #isClosed = false;

  constructor(parts: EndpointParts, { context, logger, observer }: Surroundings) {
    this.#parts = parts;
    this.#context = context;
    this.#logger = logger;
    this.#observer = observer;
  }

  /** Answers every further request with 503. */
  close(): void {
    this.#isClosed = true;
  }

  /** Serves one stream that a peer opened: the request to the handler, its answer back. */
  async serve(stream: MeshStream): Promise<void> {
    this.#running++;
    let incoming: Incoming | undefined;
    let isSwitched = false;
    try {
      incoming = await incomingOf(stream);
      if (incoming === undefined) return stream.reset(codeNumber("BadMessage"));
      isSwitched = await this.#serve(stream, incoming);
    } finally {
      this.#running--;
    }
    if (!isSwitched) await incoming.done();
  }

  /** Serves the request that a stream carries; whether the answer was to speak another protocol. */
  async #serve(stream: MeshStream, incoming: Incoming): Promise<boolean> {
    stream.retain(incoming.request);
    const { name: service, version } = this.#parts;
    const served = { service, version, caller: toHex(stream.peer) };
    const observation = this.#observer?.serve(incoming.request, served);
    let accepted: Accepted | undefined;
    try {
      const answer = (): Promise<Encoded> => this.#answer(stream, incoming);
      const encoded = await unlessGone(stream, observation?.run(answer) ?? answer());
      accepted = encoded.accepted;
      if (accepted === undefined) await send(stream, incoming.request, encoded);
      else await switchTo(stream, encoded.head(), accepted);
      observation?.answered(encoded.status);
    } catch (error) {
      this.#failed(stream, error);
      observation?.failed(error);
    }
    return accepted !== undefined;
  }

  /** The answer to a request: the handler's, if the peer may have it and the handler does not fail. */
  async #answer(stream: MeshStream, incoming: Incoming): Promise<Encoded> {
    const { name, handler, allow, limit } = this.#parts;
    try {
      if (this.#isClosed || this.#running > limit) return await encode(problem(503));
      const caller = toHex(stream.peer);
      if (allow !== undefined && !(await allow(caller, () => incoming.withoutBody()))) {
        this.#logger.log("warn", `${caller} called ${name}, which does not allow it`);
        return await encode(problem(403));
      }
      const { request, offered } = incoming;
      const context = { caller, ...this.#context };
      contexts.set(request, context);
      issued.add(context);
      if (allow !== undefined) gated.add(context);
      if (offered === undefined) return await encode(await handler(request, context));
      const offer = new Offer(request, offered);
      return await offer.during(async () => encode(await handler(request, context), offer));
    } catch (error) {
      if (stream.error !== undefined) throw error;
      this.#log(error);
      return encode(problem(500));
    }
  }

  #failed(stream: MeshStream, error: unknown): void {
    const { error: gone } = stream;
    if (gone !== undefined) {
      return this.#logger.log("debug", `an answer of ${this.#parts.name} was cut off`, gone.code);
    }
    this.#log(error);
    stream.reset(codeNumber("HandlerFailed"));
  }

  #log(error: unknown): void {
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#logger.log(
      "error",
      `the handler of ${this.#parts.name} failed: ${reason}`,
      codeNumber("HandlerFailed"),
    );
  }
}

/** A request as it arrived on a stream. */
class Incoming {
  readonly request: Request;
  /** The WebSocket that it asks for, if it does. */
  readonly offered: Offered | undefined;
  readonly #stream: MeshStream;
  readonly #body: ReadableStream<Uint8Array<ArrayBuffer>> | null;

  constructor(stream: MeshStream, { method, path, headers: fields }: RequestHead, hasBody: boolean) {
    this.#stream = stream;
    const headers = headersOf(fields);
    this.#body = hasBody ? stream.readable(declaredLength(headers)) : null;
    this.offered = offeredBy(method, fields);
    if (this.offered === undefined) headers.delete("upgrade");
    else setUpgrade(headers);
    const init = { method, headers, signal: stream.signal };
    // `OPTIONS *` is about the service as a whole, whose path is empty (RFC 9112, 3.3).
    const url = `https://${stream.service}.mesh${path === "*" ? "" : path}`;
    this.request =
      this.#body === null
        ? new Request(url, init)
        : new Request(url, { ...init, body: this.#body, duplex: "half" } as RequestInit);
  }

  /** The request for whoever is not to read its body. */
  withoutBody(): Request {
    const { method, headers, signal, url } = this.request;
    return new Request(url, { method, headers, signal });
  }

  /** The request is answered: what nobody reads of it is dropped. */
  async done(): Promise<void> {
    if (this.#body === null) await this.#stream.drain();
    // A body that broke off cannot be cancelled, and need not be.
    else if (!this.#body.locked) await this.#body.cancel().catch(() => undefined);
  }
}

/** The request that a stream carries, or `undefined` when it carries none that the platform can make. */
async function incomingOf(stream: MeshStream): Promise<Incoming | undefined> {
  try {
    const head = decodeRequestHead(stream.head);
    return new Incoming(stream, head, await hasBody(stream, head));
  } catch {
    return undefined;
  }
}

/**
 * Whether a request has a body. Of methods of which recipients expect none, and which say no length, the first bytes or the end tell: a
 * platform that passes on an empty stream would send it in chunks. Whoever sends a body with others may wait for the answer first. So
 * does whoever sends neither for a while.
 */
async function hasBody(stream: MeshStream, { method, headers }: RequestHead): Promise<boolean> {
  if (method === "GET" || method === "HEAD") return false;
  const isExpected = UPLOADS.has(method) || headers.some(([name]) => name === "content-length");
  return isExpected || stream.hasBytes(BODY_WAIT_MS);
}

/** Sets the fields of one hop that a request for a WebSocket has; its extensions are for whoever makes the frames. */
function setUpgrade(headers: Headers): void {
  headers.set("connection", "upgrade");
  headers.set("upgrade", "websocket");
  headers.delete("sec-websocket-extensions");
}

async function send(stream: MeshStream, request: Request, encoded: Encoded): Promise<void> {
  const { status, head, body } = encoded;
  if (hasNoBody(status, request.method)) {
    await stream.finish(head());
    // Nobody waits for a source that takes long to stop, or minds one that failed.
    body?.cancel().catch(() => undefined);
    return;
  }
  const measure = new Measure(encoded.length);
  if (body === null) {
    measure.end();
    await stream.finish(head(0));
  } else if (request.body === null || stream.remoteEnded) await stream.answerWhole(head, body, measure);
  // Whoever still sends a body may wait for the head before going on with it.
  else await stream.answer(head(), body, measure);
}

/** Sends the head that accepts a WebSocket, and lets the handler speak. */
async function switchTo(stream: MeshStream, head: Uint8Array, accepted: Accepted): Promise<void> {
  try {
    await stream.write(head);
  } finally {
    await connect(stream, accepted);
  }
}

/** Lets a handler speak on a stream; if that is gone its socket hears so. */
async function connect(stream: MeshStream, accepted: Accepted): Promise<void> {
  const connection = new FramedConnection(stream, new Uint8Array(), false);
  accepted.start(connection);
  await connection.closed;
}

/** What comes of some work, unless the stream goes first. */
async function unlessGone(stream: MeshStream, work: Promise<Encoded>): Promise<Encoded> {
  const { promise, reject } = Promise.withResolvers<never>();
  const discard = ({ body, accepted }: Encoded): unknown =>
    accepted === undefined ? body?.cancel() : connect(stream, accepted);
  const gone = (): void => {
    reject(stream.error);
    work.then(discard).catch(() => undefined);
  };
  stream.signal.addEventListener("abort", gone, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    stream.signal.removeEventListener("abort", gone);
  }
}

/** Encodes the head of an answer. A handler that gives none, or none that can be sent, has failed. */
async function encode(response: Response, offer?: Offer): Promise<Encoded> {
  if (typeof response?.status !== "number") {
    throw new MeshError("HandlerFailed", "a handler gives a Response");
  }
  const accepted = await offer?.answeredBy(response);
  const status = accepted === undefined ? response.status : 101;
  if (status < 200 && accepted === undefined) {
    throw new MeshError("HandlerFailed", `an answer of status ${status} cannot go over the mesh`);
  }
  const { body, isDecoded } = await contentOf(response);
  const list = headerList(response.headers).filter(
    ([name]) => name !== ACCEPT_FIELD && !(isDecoded && OF_ENCODED.has(name)),
  );
  const headers = accepted === undefined ? list : [...withoutHandshake(list), ...accepted.fields];
  const fault = faultOf(undefined, headers);
  if (fault !== undefined) throw new MeshError("HandlerFailed", `the answer is malformed: ${fault}`);
  const head = encodeHead(status, headers);
  if (head.length - 4 > MAX_HEAD || headers.length > MAX_HEADERS) {
    throw new MeshError(
      "TooLarge",
      `an answer's head has at most ${MAX_HEAD} bytes and ${MAX_HEADERS} headers`,
    );
  }
  const length = isDecoded ? undefined : declaredLength(response.headers);
  const isSaid = list.some(([name]) => name === "content-length");
  const withLength = (known?: number): Uint8Array =>
    known === undefined || isSaid ? head : encodeHead(status, headers, known);
  return { status, head: withLength, body, length, accepted };
}

/** The fields of an answer that describe its bytes before the platform decoded them. */
const OF_ENCODED: ReadonlySet<string> = /* @__PURE__ */ new Set(["content-encoding", "content-length"]);

/** A head, with the length of the body if that is given and leaves it within its limits. */
function encodeHead(status: number, headers: HeaderList, length?: number): Uint8Array {
  if (length === undefined) return encodeResponseHead({ status, headers });
  const head = encodeResponseHead({ status, headers: [...headers, ["content-length", `${length}`]] });
  const fits = head.length - 4 <= MAX_HEAD && headers.length < MAX_HEADERS;
  return fits ? head : encodeHead(status, headers);
}
