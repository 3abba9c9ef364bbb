/** What callers send and services answer in these tests, by the one file of cases, in every runtime that has Fetch. */

/** A header; each character of the value is one byte. */
export type Field = readonly [name: string, value: string];

/** A request as a caller is to make it. */
export interface Order {
  /** The method. */
  readonly method: string;
  /** The URL, of the service `probe.mesh` that stands for the one under test. */
  readonly url: string;
  /** Headers. */
  readonly headers: readonly Field[];
  /** The body, each character one byte. */
  readonly body?: string;
  /** The body comes as it is made: nobody can know its length. */
  readonly isStream?: boolean;
  /** What is to be done with redirects. */
  readonly redirect?: "follow" | "error" | "manual";
}

/** An answer as a service is to give it. */
export interface Reply {
  /** The status. */
  readonly status: number;
  /** Headers. */
  readonly headers?: readonly Field[];
  /** The body, each character one byte. */
  readonly body?: string;
  /** The body comes as it is made. */
  readonly isStream?: boolean;
}

/** A request as it arrived. */
export interface Arrived {
  /** The method. */
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Headers. */
  readonly headers: readonly Field[];
  /** The body, each character one byte. */
  readonly body: string;
  /** Who called. */
  readonly caller: string;
}

/** What came of a request: an answer, or why there is none. */
export type Outcome =
  | { readonly status: number; readonly headers: readonly Field[]; readonly body: string }
  | { readonly error: string };

/** The header that says which reply a request is for, as JSON. */
export const REPLY = "x-reply";
/** The header that names a run of a case. */
export const RUN = "x-run";
/** Where a service tells what arrived in a run. */
export const ARRIVED = "/arrived/";

/** Where a member takes datagrams of the RPC over HTTP. */
export const DATAGRAMS = "/datagrams";
/** What all replicas of the RPC have. */
export const REPLICA = { ticketKey: new Uint8Array(32).fill(5), idempotent: true } as const;

/** Whether a request is to a path. */
export function isFor({ url }: Request, path: string): boolean {
  return new URL(url).pathname === path;
}

/** The bytes of a text of the code points 0 to 255. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** A text with a character for each byte. */
export function textOf(bytes: ArrayBuffer | Uint8Array): string {
  return Array.from(new Uint8Array(bytes), (byte) => String.fromCharCode(byte)).join("");
}

/** A body that comes in two parts. */
function inParts(text: string): ReadableStream<Uint8Array<ArrayBuffer>> {
  const bytes = bytesOf(text);
  const middle = Math.ceil(bytes.length / 2);
  const parts = [bytes.slice(0, middle), bytes.slice(middle)].filter(({ length }) => length > 0);
  return new ReadableStream({
    async pull(controller) {
      // Not at once: a body that is there as a whole has a length.
      await new Promise((resolve) => setTimeout(resolve, 30));
      const part = parts.shift();
      if (part === undefined) controller.close();
      else controller.enqueue(part);
    },
  });
}

/** Makes the request of an order and tells what comes of it. */
export async function perform(
  fetcher: (url: string, init: RequestInit) => Promise<Response>,
  order: Order,
): Promise<Outcome> {
  const { method, url, headers, body, isStream, redirect } = order;
  const content = body === undefined ? {} : { body: isStream ? inParts(body) : bytesOf(body) };
  try {
    const init = { method, headers: headers.map(([name, value]) => [name, value]), ...content };
    const more = { ...(isStream ? { duplex: "half" } : {}), ...(redirect ? { redirect } : {}) };
    const response = await fetcher(url, { ...init, ...more } as RequestInit);
    return {
      status: response.status,
      headers: [...response.headers],
      body: textOf(await response.arrayBuffer()),
    };
  } catch (error) {
    return { error: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
  }
}

/** Answers as each request says, and tells what arrived. */
export class Probe {
  readonly #arrived: Map<string, Arrived> = new Map();

  /** Answers a request of a caller. */
  async answer(request: Request, caller: string): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    if (pathname.startsWith(ARRIVED)) {
      return Response.json(this.#arrived.get(pathname.slice(ARRIVED.length)) ?? null);
    }
    const run = request.headers.get(RUN) ?? "";
    const { method } = request;
    const body = textOf(await request.arrayBuffer());
    this.#arrived.set(run, { method, path: pathname + search, headers: [...request.headers], body, caller });
    const { status, headers = [], body: content, isStream } = replyOf(request);
    const bytes = content === undefined ? null : isStream ? inParts(content) : bytesOf(content);
    const init = { status, headers: headers.map(([name, value]): [string, string] => [name, value]) };
    return new Response(bytes, { ...init, encodeBody: "manual" } as ResponseInit);
  }
}

function replyOf(request: Request): Reply {
  return JSON.parse(request.headers.get(REPLY) ?? '{"status":200}') as Reply;
}
