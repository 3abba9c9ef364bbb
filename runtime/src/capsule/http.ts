import { MeshError } from "../codec/code.ts";
import { Reader } from "../codec/field.ts";
import { problem } from "../codec/problem.ts";
import { readBounded } from "./body.ts";
import { MAX_REQUEST, type Replica } from "./replica.ts";

/** What requests and responses are to HTTP. */
export const CAPSULE_TYPE = "application/vnd.selfsame.capsule";

/** What `replicaHandler` needs of a replica. */
export type Requested = Pick<Replica, "request">;

/**
 * A fetch handler for a replica: `POST` of a request of `docs/specification/capsules.md` gives the response. A body that is
 * too long is refused before it is read whole. Whoever accepts JSON is told in words why a request was refused as a whole.
 */
export function replicaHandler(replica: Requested): (request: Request) => Promise<Response> {
  return async (request) => {
    try {
      return await answer(replica, request);
    } catch (error) {
      if (!(error instanceof MeshError)) throw error;
      return refusal(error);
    }
  };
}

async function answer(replica: Requested, request: Request): Promise<Response> {
  if (request.method !== "POST") {
    const detail = "a replica of capsules takes requests as POST, in the binary format of its specification";
    const response = problem(405, { detail });
    response.headers.set("allow", "POST");
    return response;
  }
  const response = await replica.request(await readBounded(request, MAX_REQUEST, "a request to a replica"));
  const refused = (request.headers.get("accept") ?? "").includes("json") ? refusalIn(response) : undefined;
  if (refused !== undefined) return refused;
  return new Response(response, { headers: { "content-type": CAPSULE_TYPE, "cache-control": "no-store" } });
}

/** In words why a response refuses its request as a whole, if it does. */
function refusalIn(response: Uint8Array): Response | undefined {
  const reader = new Reader(response);
  reader.u8();
  const code = reader.u16();
  return code === 0 ? undefined : refusal(new MeshError(code), reader.u32());
}

function refusal(error: MeshError, at?: number): Response {
  const members = { detail: error.message, error: error.name };
  return problem(statusOf(error), at === undefined ? members : { ...members, at });
}

/** The replica answers for itself: what is wrong with a request is the client's fault. */
function statusOf({ class: fault, name }: MeshError): number {
  if (name === "TooLarge") return 413;
  return fault === "Malformed" || fault === "Misbehaved" || fault === "Usage" ? 400 : 503;
}
