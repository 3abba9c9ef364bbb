import { MeshError } from "../codec/code.ts";
import { declaredLength, lengthOf } from "./length.ts";

/** What ends a request early. */
export interface Cancellation {
  /** The application's own signal, if it gave one. */
  readonly signal: AbortSignal | undefined;
  /** The `Request` whose signal it is: the signal follows its source only while that is referenced. */
  readonly owner: Request | undefined;
}

/** What an application asks of a service. */
export interface Asked {
  /** Method, URL and headers. Its signal is nobody's: `cancellation` has the application's. */
  readonly request: Request;
  /** Its body. */
  readonly body: ReadableStream<Uint8Array> | null | undefined;
  /** How long the body is, where that is known or its headers say so. */
  readonly length: number | undefined;
  /** Whether the body is a stream of the application, which may wait for the answer before it goes on. */
  readonly isStream: boolean;
  /** Whether an answer that redirects is an error. */
  readonly refusesRedirects: boolean;
  /** What ends it early. */
  readonly cancellation: Cancellation;
}

/** Statuses that redirect (Fetch, "redirect status"). */
const REDIRECTS: ReadonlySet<number> = /* @__PURE__ */ new Set([301, 302, 303, 307, 308]);

/**
 * Whether an answer that redirects is an error, as the option `redirect` says. It is never followed: a service's redirect leads whoever
 * asked at the edge, mostly to a place outside the mesh. Throws `BadConfig` where an option asks for that; a `Request` always does.
 */
export function refusesRedirects(input: Request | URL | string, init: RequestInit): boolean {
  if (init.redirect === "follow") {
    const text = 'redirects are not followed: leave redirect out, or give "manual" or "error"';
    throw new MeshError("BadConfig", text);
  }
  return (init.redirect ?? (input instanceof Request ? input.redirect : undefined)) === "error";
}

/** Throws as `fetch` does when an answer redirects and that is an error. */
export function checkRedirect(isRefused: boolean, status: number): void {
  if (isRefused && REDIRECTS.has(status)) {
    throw new TypeError(`the service redirects with ${status}, and the option redirect is "error"`);
  }
}

/** What ends the request that `fetch` is given so. */
export function cancellationOf(input: Request | URL | string, init: RequestInit): Cancellation {
  const owner = input instanceof Request && init.signal === undefined ? input : undefined;
  return { signal: init.signal ?? owner?.signal, owner };
}

/** A request to a URL with the method, headers and body that `fetch` is given. */
export async function requestTo(url: URL, input: Request | URL | string, init: RequestInit): Promise<Asked> {
  const given = input instanceof Request ? input : undefined;
  const body = init.body ?? (await bodyOf(given));
  const request = new Request(url, {
    method: init.method ?? given?.method ?? "GET",
    headers: init.headers ?? given?.headers ?? [],
    ...(body === null ? {} : { body }),
    // Required by the standard for a body that streams.
    ...(body instanceof ReadableStream ? { duplex: "half" } : {}),
  } as RequestInit);
  const isTold = request.body !== undefined || !(body instanceof ReadableStream);
  return {
    request,
    body: isTold ? await bodyOf(request) : body,
    length: lengthOf(init.body) ?? declaredLength(request.headers),
    refusesRedirects: refusesRedirects(input, init),
    isStream: init.body instanceof ReadableStream,
    cancellation: cancellationOf(input, init),
  };
}

/** The body of a request, also on a platform that does not tell it, as Firefox. */
async function bodyOf(request: Request | undefined): Promise<ReadableStream<Uint8Array> | null> {
  if (request === undefined) return null;
  if (request.body !== undefined) return request.body;
  const bytes = await request.arrayBuffer();
  return bytes.byteLength === 0 ? null : new Blob([bytes]).stream();
}
