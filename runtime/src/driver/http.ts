import { MeshError } from "../codec/code.ts";
import type { HeaderList } from "../codec/http.ts";

/**
 * Headers that belong to one hop, which HTTP forbids to pass on (RFC 9110, 7.6.1). A host is named by the mesh itself,
 * and a peer is not asked to compress: `fetch` decodes only what came over HTTP.
 */
const HOP_BY_HOP: ReadonlySet<string> = /* @__PURE__ */ new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "host",
  "accept-encoding",
]);

/** Answers that have no body whatever their sender says (the null body statuses of Fetch). */
const NULL_BODY: ReadonlySet<number> = /* @__PURE__ */ new Set([204, 205, 304]);

/** The headers that travel. */
export function headerList(headers: Headers): HeaderList {
  return [...headers].filter(([name]) => !HOP_BY_HOP.has(name));
}

/** Headers that arrived. A name or value that HTTP does not allow throws. */
export function headersOf(list: HeaderList): Headers {
  const headers = new Headers();
  for (const [name, value] of list) if (!HOP_BY_HOP.has(name)) headers.append(name, value);
  return headers;
}

/** Whether an answer of this status to this method has no body. */
export function hasNoBody(status: number, method: string): boolean {
  return method === "HEAD" || NULL_BODY.has(status);
}

/** What a handler answers; where it fails because the mesh did, an answer that tells so (`MeshError.getResponse`). */
export async function answerOf(work: () => Response | Promise<Response>): Promise<Response> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof MeshError) return error.getResponse();
    throw error;
  }
}
