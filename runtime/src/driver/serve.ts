import { codeNumber, MeshError } from "../codec/code.ts";
import { toHex } from "../codec/hex.ts";
import { decodeRequestHead, encodeResponseHead, MAX_HEAD, MAX_HEADERS } from "../codec/http.ts";
import { hasNoBody, headerList, headersOf } from "./http.ts";
import type { Logger } from "./log.ts";
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

const contexts: WeakMap<Request, CallContext> = /* @__PURE__ */ new WeakMap();

/**
 * Who made a request, if it came over the mesh to a handler of this process. It knows the very `Request` object, so no
 * header can forge it.
 */
export function contextOf(request: Request): CallContext | undefined {
  return contexts.get(request);
}

/** Serves one stream that a peer opened: the request to the handler, its answer back. */
export async function serveStream(
  stream: MeshStream,
  handler: Handler,
  parts: Pick<CallContext, "env" | "waitUntil">,
  logger: Logger,
): Promise<void> {
  const request = requestOf(stream);
  if (request === undefined) return stream.reset(codeNumber("BadMessage"));
  const context = { caller: toHex(stream.peer), assurance: "session", ...parts } as const;
  contexts.set(request, context);
  try {
    const response = await handler(request, context);
    await sendResponse(stream, request.method, response);
  } catch (error) {
    if (stream.error !== undefined) {
      return logger.log("debug", `an answer of ${stream.service} was cut off`, stream.error.code);
    }
    const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
    logger.log("error", `the handler of ${stream.service} failed: ${reason}`, codeNumber("HandlerFailed"));
    stream.reset(codeNumber("HandlerFailed"));
    return;
  }
  if (!stream.remoteEnded) await stream.drain();
}

/** The request that a stream carries, or `undefined` when it carries none that the platform can make. */
function requestOf(stream: MeshStream): Request | undefined {
  try {
    const head = decodeRequestHead(stream.head);
    const hasBody = head.method !== "GET" && head.method !== "HEAD";
    const init = { method: head.method, headers: headersOf(head.headers), signal: stream.signal };
    const url = `https://${stream.service}.mesh${head.path}`;
    if (!hasBody) return new Request(url, init);
    // A handler that does not want the rest of a request may still answer it.
    const body = stream.readable(() => void stream.drain());
    return new Request(url, { ...init, body, duplex: "half" } as RequestInit);
  } catch {
    return undefined;
  }
}

async function sendResponse(stream: MeshStream, method: string, response: Response): Promise<void> {
  const headers = headerList(response.headers);
  const { status } = response;
  if (status < 200)
    throw new MeshError("HandlerFailed", `an answer of status ${status} cannot go over the mesh`);
  const head = encodeResponseHead({ status, headers });
  if (head.length - 4 > MAX_HEAD || headers.length > MAX_HEADERS) {
    throw new MeshError(
      "TooLarge",
      `an answer's head has at most ${MAX_HEAD} bytes and ${MAX_HEADERS} headers`,
    );
  }
  await stream.write(head);
  if (!hasNoBody(status, method)) return stream.pipe(response.body);
  await response.body?.cancel();
  stream.end();
}
