import { toBase32 } from "../codec/base32.ts";
import { MeshError } from "../codec/code.ts";
import { Reader } from "../codec/field.ts";
import { problem } from "../codec/problem.ts";
import { readBounded } from "./body.ts";
import { isName } from "./name.ts";
import { PlacedError } from "./record.ts";
import { MAX_REQUEST, type Replica } from "./replica.ts";

/** What requests and responses are to HTTP. */
export const CAPSULE_TYPE = "application/vnd.selfsame.capsule";
/** What export files are to HTTP. */
export const CAPSULE_FILE_TYPE = "application/vnd.selfsame.capsule-file";

/** What `replicaHandler` needs of a replica. */
export type Requested = Pick<Replica, "request"> &
  Partial<Pick<Replica, "exportFile" | "importFile">> & {
    /** Name of the one capsule that there is: whatever its path, `GET` gives its export file. */
    readonly capsule?: string | undefined;
  };

/** What a mesh or a server tells a handler beside the request of where it comes from; of requests without it there is one source. */
export interface RequestOrigin {
  /** The caller's peer id, 64 hex digits. */
  readonly caller?: string | undefined;
  /** The client's address, as Deno has it. */
  readonly remoteAddr?: { readonly hostname?: string | undefined } | undefined;
}

/** How a replica's requests are answered. */
export interface ReplicaHandlerOptions {
  /**
   * Says from which address a request comes, where the platform vouches for one in a header; nothing for others.
   */
  readonly source?: ((request: Request) => string | undefined) | undefined;
}

/**
 * A fetch handler for a replica: `POST` of a request of `docs/specification/capsules.md` gives the response, `GET` of a path that
 * ends with a capsule's name its export file, and `POST` of such a file stores it. A request that is too long is refused before it
 * is read whole; a file may have any length. Whoever accepts JSON is told in words why a request was refused as a whole.
 */
export function replicaHandler(
  replica: Requested,
  options: ReplicaHandlerOptions = {},
): (request: Request, from?: RequestOrigin) => Promise<Response> {
  const { source } = options;
  return async (request, from) => {
    try {
      return await answer(replica, request, source?.(request) ?? from?.caller ?? from?.remoteAddr?.hostname);
    } catch (error) {
      if (!(error instanceof MeshError)) throw error;
      return refusal(error);
    }
  };
}

async function answer(replica: Requested, request: Request, source: string | undefined): Promise<Response> {
  const { exportFile, importFile } = replica;
  const { method, headers } = request;
  const name = replica.capsule ?? new URL(request.url).pathname.split("/").at(-1) ?? "";
  const hasFile = exportFile !== undefined && isName(name);
  if (method === "GET" && hasFile) return fileResponse(exportFile.call(replica, name));
  if (method !== "POST") return notAllowed(hasFile ? "GET, POST" : "POST");
  if (importFile !== undefined && headers.get("content-type") === CAPSULE_FILE_TYPE) {
    const { capsule, records, holes } = await importFile.call(replica, piecesOf(request), source);
    return Response.json({ capsule: toBase32(capsule), records, holes });
  }
  const message = await readBounded(request, MAX_REQUEST, "a request to a replica");
  const response = await replica.request(message, source);
  const refused = (headers.get("accept") ?? "").includes("json") ? refusalIn(response) : undefined;
  if (refused !== undefined) return refused;
  return new Response(response, { headers: { "content-type": CAPSULE_TYPE, "cache-control": "no-store" } });
}

/** What is asked of a path with another method than those that it has. */
function notAllowed(methods: string): Response {
  const detail =
    "a replica of capsules takes requests and export files as POST, and gives the export file of a capsule as GET of its name";
  const response = problem(405, { detail, error: "BadMessage" });
  response.headers.set("allow", methods);
  return response;
}

/** A file while it is made: with its first bytes it is known that the capsule is there. */
async function fileResponse(file: AsyncGenerator<Uint8Array<ArrayBuffer>, unknown>): Promise<Response> {
  const first = await file.next();
  let ready: typeof first | undefined = first;
  const body = new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const { done, value } = ready ?? (await file.next());
      ready = undefined;
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
    cancel: async () => void (await file.return(undefined)),
  });
  return new Response(body, { headers: { "content-type": CAPSULE_FILE_TYPE, "cache-control": "no-store" } });
}

/** The body of a request as it comes; not every platform iterates over it. */
async function* piecesOf({ body }: Request): AsyncGenerator<Uint8Array> {
  const reader = (body as ReadableStream<Uint8Array> | null)?.getReader();
  for (let read = await reader?.read(); read?.value !== undefined; read = await reader?.read())
    yield read.value;
}

/** In words why a response refuses its request as a whole, if it does. */
function refusalIn(response: Uint8Array): Response | undefined {
  const reader = new Reader(response);
  reader.u8();
  const code = reader.u16();
  return code === 0 ? undefined : refusal(new MeshError(code), reader.u32());
}

function refusal(error: MeshError, at = error instanceof PlacedError ? error.at : undefined): Response {
  const members = { detail: error.message, error: error.name };
  return problem(statusOf(error), at === undefined ? members : { ...members, at });
}

/** The replica answers for itself: what is wrong with a request is the client's fault. */
function statusOf({ class: fault, name }: MeshError): number {
  if (name === "TooLarge") return 413;
  return fault === "Malformed" || fault === "Misbehaved" || fault === "Usage" ? 400 : 503;
}
