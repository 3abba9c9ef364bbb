import { type Context, Hono } from "hono";
import { MeshError, problem } from "selfsame/codec";

/** What the gateway needs of its platform. */
export type GatewayOptions = {
  /** Sends a request through the mesh, on behalf of the one in the context. */
  fetch: (request: Request, c: Context) => Promise<Response>;
  /** Whether a name may be reached from outside. */
  allows: (name: string) => boolean;
};

const NAME = /^[a-z0-9.-]{1,63}$/;

/** Headers that belong to one connection, and what a browser keeps for this origin: neither goes into the mesh. */
const NOT_FORWARDED = [
  "connection",
  "cookie",
  "host",
  "keep-alive",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

/** What a service may not tell a browser about the gateway's own origin. */
const NOT_RETURNED = ["clear-site-data", "service-worker-allowed", "set-cookie", "strict-transport-security"];

/**
 * Makes services of the mesh reachable as `/mesh/NAME/path`.
 *
 * Whoever serves a name is a stranger to this origin: answers are sandboxed, so that their scripts cannot act as
 * a page of this origin, and cookies travel in neither direction. 404 for a name that may not be reached; where the mesh
 * gives no answer, 502, 503 or 504 with problem details that say why and who was tried.
 */
export function gateway({ fetch, allows }: GatewayOptions): Hono {
  const app = new Hono();
  app.all("/mesh/:name/*", async (c) => {
    const { name, path } = targetOf(c.req.url);
    if (!NAME.test(name) || !allows(name)) return c.json({ error: `there is no service ${name} here` }, 404);
    try {
      return answer(await fetch(requestFor(c, name, path), c));
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      console.warn(`gateway: ${name} did not answer: ${detail}`);
      return error instanceof MeshError ? error.getResponse() : problem(502, { detail });
    }
  });
  return app;
}

/** The service of `/mesh/NAME/path?query`, decoded once and in lower case as a host name is, and the rest as it is. */
function targetOf(url: string): { name: string; path: string } {
  const { pathname, search } = new URL(url);
  const [, , segment = "", ...rest] = pathname.split("/");
  return { name: decoded(segment).toLowerCase(), path: `/${rest.join("/")}${search}` };
}

/** A segment without its percent signs; as it is, which is no name, where they encode no text. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function requestFor(c: Context, name: string, path: string): Request {
  const headers = new Headers(c.req.raw.headers);
  for (const header of NOT_FORWARDED) headers.delete(header);
  const { method, body, signal } = c.req.raw;
  return new Request(`https://${name}.mesh${path}`, {
    method,
    headers,
    body,
    signal,
    redirect: "manual",
    // Required by the standard for a body that streams.
    ...(body ? { duplex: "half" } : {}),
  });
}

function answer(response: Response): Response {
  const headers = new Headers(response.headers);
  for (const header of NOT_RETURNED) headers.delete(header);
  headers.set(
    "content-security-policy",
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:",
  );
  headers.set("x-content-type-options", "nosniff");
  headers.set("cross-origin-resource-policy", "same-origin");
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
