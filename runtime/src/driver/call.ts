import { codeNumber, MeshError } from "../codec/code.ts";
import {
  decodeResponseHead,
  encodeRequestHead,
  MAX_HEAD,
  MAX_HEADERS,
  type ResponseHead,
} from "../codec/http.ts";
import type { Command } from "../codec/input.ts";
import type { Driver } from "./driver.ts";
import { hasNoBody, headerList, headersOf } from "./http.ts";
import type { MeshStream } from "./streams.ts";

/** Providers that are tried for one request. */
const MAX_ATTEMPTS = 3;
/** A body that is kept for another attempt has at most so many bytes. */
const MAX_REPLAY: number = 64 * 1024;
/** Methods that may be carried out twice (RFC 9110, 9.2.2), but for TRACE. */
const IDEMPOTENT: ReadonlySet<string> = /* @__PURE__ */ new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);

const NONE: Uint8Array = /* @__PURE__ */ new Uint8Array();

/** Whom a request goes to. */
export interface Target {
  /** The name of the service. */
  readonly name: string;
  /** The owner's public key; empty for an unowned name. */
  readonly owner: Uint8Array;
  /** One peer in place of any provider. */
  readonly peer: Uint8Array | undefined;
}

/** Sends a request to a provider of a name and resolves with its answer, whose body streams. */
export async function call(driver: Driver, target: Target, request: Request): Promise<Response> {
  const head = requestHead(request);
  const body = new ReplayableBody(request.body);
  for (let attempt = 1; ; attempt++) {
    const sent = { isOpen: false };
    try {
      return await attemptCall(driver, target, request, head, body, sent);
    } catch (error) {
      const mayRepeat = !sent.isOpen || (IDEMPOTENT.has(request.method) && body.isReplayable);
      if (attempt === MAX_ATTEMPTS || !mayRepeat || !isUnreachable(error)) {
        body.cancel(error);
        throw error;
      }
    }
  }
}

/** Whether nobody answered, through no fault of the request. A core that trapped may have been trapped by it. */
function isUnreachable(error: unknown): boolean {
  return error instanceof MeshError && error.class === "Unreachable" && error.cause === undefined;
}

async function attemptCall(
  driver: Driver,
  { name, owner, peer }: Target,
  request: Request,
  head: Uint8Array,
  body: ReplayableBody,
  sent: { isOpen: boolean },
): Promise<Response> {
  const { signal } = request;
  const open = (tag: number): Command =>
    peer === undefined
      ? { type: "Call", tag, owner, name, key: NONE, tried: NONE, policy: "PowerOfTwo", timeout_ms: 0, head }
      : { type: "CallPeer", tag, peer, owner, name, timeout_ms: 0, head };
  const stream = await driver.openStream(open, signal);
  sent.isOpen = true;
  const cancel = (): void => stream.reset(codeNumber("Cancelled"));
  signal.addEventListener("abort", cancel, { once: true });
  try {
    const upload = body.send(stream);
    // An upload that fails shows itself in the answer, or in the stream's reset.
    upload.catch(() => undefined);
    return await receive(stream, request.method, () => signal.removeEventListener("abort", cancel));
  } catch (error) {
    signal.removeEventListener("abort", cancel);
    signal.throwIfAborted();
    throw error;
  }
}

function requestHead(request: Request): Uint8Array {
  const url = new URL(request.url);
  const headers = headerList(request.headers);
  const head = encodeRequestHead({ method: request.method, path: url.pathname + url.search, headers });
  if (head.length > MAX_HEAD || headers.length > MAX_HEADERS) {
    throw new MeshError(
      "TooLarge",
      `a request's head has at most ${MAX_HEAD} bytes and ${MAX_HEADERS} headers`,
    );
  }
  return head;
}

/** Reads the head of an answer and returns it with its body; `done` is called when the body has ended. */
async function receive(stream: MeshStream, method: string, done: () => void): Promise<Response> {
  let bytes: Uint8Array = new Uint8Array();
  for (;;) {
    const decoded = decodeHead(stream, bytes);
    if (decoded !== undefined)
      return respond(stream, method, decoded.head, bytes.subarray(decoded.taken), done);
    const chunk = await stream.read();
    if (chunk === undefined) {
      stream.reset(codeNumber("BadMessage"));
      throw new MeshError("BadMessage", "the service ended the answer before its head");
    }
    if (bytes.length === 0) bytes = chunk;
    else {
      const both = new Uint8Array(bytes.length + chunk.length);
      both.set(bytes);
      both.set(chunk, bytes.length);
      bytes = both;
    }
  }
}

function decodeHead(stream: MeshStream, bytes: Uint8Array): ReturnType<typeof decodeResponseHead> {
  try {
    return decodeResponseHead(bytes);
  } catch (cause) {
    stream.reset(codeNumber("BadMessage"));
    throw new MeshError("BadMessage", "the service's answer does not follow the specification", { cause });
  }
}

function respond(
  stream: MeshStream,
  method: string,
  { status, headers }: ResponseHead,
  first: Uint8Array,
  done: () => void,
): Response {
  if (status === 101) {
    stream.reset(codeNumber("BadMessage"));
    throw new MeshError("BadMessage", "the service switches to a protocol that nobody asked for");
  }
  const init = { status, headers: headersOf(headers) };
  if (hasNoBody(status, method)) {
    stream.drain().finally(done);
    return new Response(null, init);
  }
  const source = stream.readable(() => stream.reset(codeNumber("Cancelled")), first).getReader();
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      pull: async (controller) => {
        const next = await source.read();
        if (!next.done) return controller.enqueue(next.value);
        done();
        controller.close();
        // What is still to be uploaded has no reader any more.
        stream.reset(codeNumber("Cancelled"));
      },
      cancel: async (reason) => {
        done();
        await source.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, init);
}

/** The body of a request, which remembers what it sent while that is little enough to be sent again. */
class ReplayableBody {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #sent: Uint8Array[] | undefined = [];
  #size = 0;
  #isDone: boolean;
  #pending: Promise<ReadableStreamReadResult<Uint8Array>> | undefined;

  constructor(body: ReadableStream<Uint8Array> | null) {
    this.#reader = body?.getReader();
    this.#isDone = body === null;
  }

  /** Whether all that was read is still known. */
  get isReplayable(): boolean {
    return this.#sent !== undefined;
  }

  /** Sends the body, from its start, and ends the stream's direction. */
  async send(stream: MeshStream): Promise<void> {
    for (const chunk of this.#sent ?? []) await stream.write(chunk);
    try {
      while (!this.#isDone) {
        const chunk = await this.#next();
        if (stream.error !== undefined) throw stream.error;
        if (chunk !== undefined) await stream.write(chunk);
      }
    } catch (error) {
      stream.reset(codeNumber("StreamRefused"));
      throw error;
    }
    stream.end();
  }

  /** Nobody sends the body any more. */
  cancel(reason: unknown): void {
    this.#reader?.cancel(reason).catch(() => undefined);
  }

  /** Reads on. An attempt that failed while it read leaves its read to the next one. */
  async #next(): Promise<Uint8Array | undefined> {
    this.#pending ??= this.#reader?.read();
    const pending = this.#pending;
    const next = await pending;
    if (this.#pending !== pending) return undefined;
    this.#pending = undefined;
    if (next === undefined || next.done) {
      this.#isDone = true;
      return undefined;
    }
    this.#size += next.value.length;
    if (this.#size > MAX_REPLAY) this.#sent = undefined;
    this.#sent?.push(next.value);
    return next.value;
  }
}
