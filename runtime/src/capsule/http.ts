import { toBase32 } from "../codec/base32.ts";
import { MeshError } from "../codec/code.ts";
import { Reader } from "../codec/field.ts";
import { problem } from "../codec/problem.ts";
import type { Timers } from "../driver/timers.ts";
import type { ExportInfo } from "./module.ts";
import { isName } from "./name.ts";
import { PlacedError } from "./record.ts";
import type { Replica } from "./replica.ts";
import { Room } from "./room.ts";
import { receiveFile, receiveRequest, sendFile } from "./transfer.ts";

/** What requests and responses are to HTTP. */
export const CAPSULE_TYPE = "application/vnd.selfsame.capsule";
/** What export files are to HTTP. */
export const CAPSULE_FILE_TYPE = "application/vnd.selfsame.capsule-file";

/** What `replicaHandler` needs of a replica. */
export type Requested = Pick<Replica, "request"> &
  Partial<Pick<Replica, "exportFile" | "importFile">> & {
    /** Name of the one capsule that there is: whatever its path, `GET` gives its export file. */
    readonly capsule?: string | undefined;
    /** Shared by all handlers of the replica; one of the handler's own unless given. */
    readonly room?: Room | undefined;
    /** Timers of the host; the platform's unless given. */
    readonly timers?: Timers | undefined;
  };

/** What a mesh or a server tells a handler beside the request of where it comes from; of requests without it there is one source. */
export interface RequestOrigin {
  /** The caller's peer id, 64 hex digits. */
  readonly caller?: string | undefined;
  /** The client's address, as Deno has it. */
  readonly remoteAddr?: { readonly hostname?: string | undefined } | undefined;
  /** The request as Node has it, with the client's address. */
  readonly incoming?: { readonly socket: { readonly remoteAddress?: string | undefined } } | undefined;
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
 * is read whole; a file may have any length. Each source has a share of the memory for requests and of the places for files: requests
 * beyond it wait, files are refused. Whoever accepts JSON is told in words why a request was refused as a whole.
 */
export function replicaHandler(
  replica: Requested,
  options: ReplicaHandlerOptions = {},
): (request: Request, from?: RequestOrigin) => Promise<Response> {
  const { source } = options;
  const { room = new Room() } = replica;
  return async (request, from) => {
    try {
      return await answer(replica, room, request, source?.(request) ?? originOf(from));
    } catch (error) {
      if (!(error instanceof MeshError)) throw error;
      return refusal(error);
    }
  };
}

/** Where a request comes from, as far as a mesh or a server says. */
function originOf(from: RequestOrigin | undefined): string | undefined {
  return from?.caller ?? from?.remoteAddr?.hostname ?? from?.incoming?.socket.remoteAddress;
}

async function answer(
  replica: Requested,
  room: Room,
  request: Request,
  source: string | undefined,
): Promise<Response> {
  const { exportFile, importFile, timers } = replica;
  const { method, headers } = request;
  const name = replica.capsule ?? new URL(request.url).pathname.split("/").at(-1) ?? "";
  const hasFile = exportFile !== undefined && isName(name);
  if (method === "GET" && hasFile) {
    return fileResponse(() => exportFile.call(replica, name), room.openFile(source), timers);
  }
  if (method !== "POST") return notAllowed(hasFile ? "GET, POST" : "POST");
  if (importFile !== undefined && headers.get("content-type") === CAPSULE_FILE_TYPE) {
    const file = receiveFile(request, timers);
    return imported(() => importFile.call(replica, file, source), room.openFile(source));
  }
  const { message, place } = await receiveRequest(room, request, source, timers);
  try {
    const response = await replica.request(message, source, place);
    const refused = (headers.get("accept") ?? "").includes("json") ? refusalIn(response) : undefined;
    if (refused !== undefined) return refused;
    return new Response(response, { headers: { "content-type": CAPSULE_TYPE, "cache-control": "no-store" } });
  } finally {
    place.release();
  }
}

/** What is asked of a path with another method than those that it has. */
function notAllowed(methods: string): Response {
  const detail =
    "a replica of capsules takes requests and export files as POST, and gives the export file of a capsule as GET of its name";
  const response = problem(405, { detail, error: "BadMessage" });
  response.headers.set("allow", methods);
  return response;
}

async function fileResponse(
  make: () => AsyncGenerator<Uint8Array<ArrayBuffer>, unknown>,
  ended: () => void,
  timers: Timers | undefined,
): Promise<Response> {
  const body = await sendFile(make(), ended, timers);
  return new Response(body, { headers: { "content-type": CAPSULE_FILE_TYPE, "cache-control": "no-store" } });
}

async function imported(take: () => Promise<ExportInfo>, ended: () => void): Promise<Response> {
  try {
    const { capsule, records, holes } = await take();
    return Response.json({ capsule: toBase32(capsule), records, holes });
  } finally {
    ended();
  }
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

/** The replica answers for itself: what is wrong with a request is the client's fault, and only what may pass is 503. */
function statusOf({ class: fault, name }: MeshError): number {
  if (name === "TooLarge") return 413;
  if (name === "TimedOut") return 408;
  if (name === "NoCapsule") return 404;
  if (name === "OwnerRefused") return 403;
  // A replica that closes is soon another one.
  if (name === "Cancelled" || fault === "Limit" || fault === "Unreachable") return 503;
  return fault === "Malformed" || fault === "Misbehaved" || fault === "Usage" ? 400 : 500;
}
