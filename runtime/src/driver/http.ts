import { MeshError } from "../codec/code.ts";
import type { HeaderList } from "../codec/http.ts";
import { FieldGrammar, OF_ONE_HOP } from "../codec/http-grammar.ts";

/** How much of a field's name an error tells. */
const SHOWN = 64;
/** Answers that have no body whatever their sender says (the null body statuses of Fetch). */
const NULL_BODY: ReadonlySet<number> = /* @__PURE__ */ new Set([204, 205, 304]);

/** The headers that travel: none of one hop, and none that `connection` names as such (RFC 9110, 7.6.1). */
export function headerList(headers: Headers): HeaderList {
  const named = new Set(
    (headers.get("connection") ?? "").split(",").map((name) => name.trim().toLowerCase()),
  );
  return [...headers].filter(([name]) => !OF_ONE_HOP.has(name) && name !== "upgrade" && !named.has(name));
}

/** What is wrong with the first field of a head that breaks the grammar: `content-length is not 1 to 15 digits`. */
export function faultOf(method: string | undefined, fields: HeaderList): string | undefined {
  const grammar = new FieldGrammar(method);
  for (const [name, value] of fields) {
    const fault = grammar.fault(name, value);
    if (fault !== undefined) return `the field ${name.slice(0, SHOWN)} ${fault}`;
  }
  return undefined;
}

/** The path and query of a request as they travel: older parsers of URLs leave what newer ones encode. */
export function pathOf({ pathname, search }: URL): string {
  return pathname.replace(/["<>\\^`{}]/g, escaped) + search.replace(/["<>]|'/g, escaped);
}

function escaped(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

/** Headers that arrived. */
export function headersOf(list: HeaderList): Headers {
  const headers = new Headers();
  for (const [name, value] of list) headers.append(name, value);
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
