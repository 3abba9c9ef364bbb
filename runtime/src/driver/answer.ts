import { codeNumber, MeshError } from "../codec/code.ts";
import { decodeResponseHead } from "../codec/http.ts";
import { detach } from "../guard.ts";
import { markUnchanged } from "./content.ts";
import { hasNoBody, headersOf } from "./http.ts";
import { declaredLength, Measure } from "./length.ts";
import type { MeshStream } from "./streams.ts";

/** An answer whose head has arrived. */
export interface Answer {
  /** The stream that the rest of it comes on. */
  readonly stream: MeshStream;
  /** Its status. */
  readonly status: number;
  /** Its headers. */
  readonly headers: Headers;
  /** The bytes that came with the head. */
  readonly rest: Uint8Array;
}

/** Reads the head of an answer; `began` is called when its first byte has arrived. */
export async function readAnswer(stream: MeshStream, began: () => void): Promise<Answer> {
  let bytes: Uint8Array = new Uint8Array();
  for (;;) {
    const decoded = decodeHead(stream, bytes);
    if (decoded !== undefined) return { stream, ...decoded, rest: bytes.subarray(decoded.taken) };
    const chunk = await stream.read();
    if (chunk === undefined) {
      stream.reset(codeNumber("BadMessage"));
      throw new MeshError("BadMessage", "the service ended the answer before its head");
    }
    began();
    if (bytes.length === 0) bytes = chunk;
    else {
      const both = new Uint8Array(bytes.length + chunk.length);
      both.set(bytes);
      both.set(chunk, bytes.length);
      bytes = both;
    }
  }
}

function decodeHead(
  stream: MeshStream,
  bytes: Uint8Array,
): { status: number; headers: Headers; taken: number } | undefined {
  try {
    const decoded = decodeResponseHead(bytes);
    if (decoded === undefined) return undefined;
    const { head, taken } = decoded;
    return { status: head.status, headers: headersOf(head.headers), taken };
  } catch (cause) {
    stream.reset(codeNumber("BadMessage"));
    throw new MeshError("BadMessage", "the service's answer does not follow the specification", { cause });
  }
}

/** Nobody reads the answer. */
export function discard({ stream }: Answer): void {
  stream.reset(codeNumber("Cancelled"));
}

/** An answer as Fetch knows it; its body fails with the reason of `signal` when that is aborted. */
export function responseOf(answer: Answer, method: string, signal: AbortSignal | undefined): Response {
  const { stream, status, headers } = answer;
  let fail: (reason: unknown) => void = () => undefined;
  const abort = (): void => {
    discard(answer);
    fail(signal?.reason);
  };
  const done = (): void => signal?.removeEventListener("abort", abort);
  signal?.addEventListener("abort", abort, { once: true });
  if (hasNoBody(status, method)) {
    // A server that hands the answer on would announce bytes that never come (RFC 9112, 6.3).
    if (status === 204 || status === 205) headers.delete("content-length");
    detach("the end of an answer", stream.drain().finally(done));
    return new Response(null, { status, headers });
  }
  let pending = answer.rest.length > 0 ? answer.rest : undefined;
  const measure = new Measure(declaredLength(headers));
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      start: (controller) => {
        fail = (reason) => controller.error(reason);
      },
      pull: async (controller) => {
        try {
          const chunk = pending ?? (await stream.readMeasured(measure));
          if (pending !== undefined) measure.add(pending.length);
          pending = undefined;
          if (chunk !== undefined) return controller.enqueue(chunk as Uint8Array<ArrayBuffer>);
        } catch (error) {
          done();
          if (stream.error === undefined) stream.reset(codeNumber("BadMessage"));
          throw error;
        }
        done();
        controller.close();
        // What is still to be uploaded has no reader any more.
        discard(answer);
      },
      cancel: () => {
        done();
        discard(answer);
      },
    },
    // Nothing is read ahead: credit follows what the application consumes.
    { highWaterMark: 0 },
  );
  // workerd would encode the bytes once more.
  const init = { status, headers, encodeBody: headers.has("content-encoding") ? "manual" : "automatic" };
  return markUnchanged(new Response(body, init as ResponseInit));
}
