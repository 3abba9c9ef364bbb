import { WorkerEntrypoint } from "cloudflare:workers";
import { type Context, Hono } from "hono";
import { MeshNode, type MeshNodeOptions } from "selfsame";
import { type MeshClient, mesh } from "selfsame/hono";
import { telemetry, traced } from "selfsame/telemetry";
import { check, handler, parseDictionary } from "selfsame-apps/appauth";
import users from "selfsame-apps/appauth/users.json" with { type: "json" };
import { edge, grantsOf, ownerOf, words } from "selfsame-apps/edge";

/** Bindings and variables of the Worker; `wrangler.jsonc` explains them. */
export type Env = {
  NODE: DurableObjectNamespace<Node>;
  NETWORK: string;
  URL: string;
  BOOTSTRAP: string;
  OWNER: string;
  OWNED: string;
  GRANTS: string;
  GATEWAY: string;
  ALLOW_PRIVATE: string;
};

/** The member of the ring. It serves what it has a grant for. */
export class Node extends MeshNode<Env> {
  override options = (env: Env): MeshNodeOptions => ({
    network: env.NETWORK,
    address: [`${env.URL.replace(/^http/, "ws")}/.mesh`, `${env.URL}/.mesh`],
    bootstrap: words(env.BOOTSTRAP),
    owner: env.OWNER ? ownerOf(words(env.OWNED), env.OWNER) : undefined,
    grants: grantsOf(env.GRANTS),
    allowPrivate: env.ALLOW_PRIVATE === "1",
    domain: "workerd",
    telemetry: telemetry({ name: "workerd" }),
  });

  override services: Record<string, string> = Object.fromEntries(
    Object.keys(grantsOf(this.env.GRANTS)).map((name) => [name, ENTRYPOINTS[name] ?? name]),
  );
}

/** The mesh's `handler`. */
export class Handler extends WorkerEntrypoint<Env> {
  override fetch(request: Request): Response | Promise<Response> {
    return entrance.fetch(request, this.env, this.ctx);
  }
}

/** The mesh's `check`. Hashing takes tens of milliseconds of CPU: more than the free plan gives a request. */
export class Check extends WorkerEntrypoint<Env> {
  override fetch(request: Request): Response | Promise<Response> {
    return checker.fetch(request);
  }
}

/** The entrypoints by the names that they serve. */
const ENTRYPOINTS: Readonly<Record<string, string>> = { handler: "Handler", check: "Check" };

const connected = mesh((c) => c.env.NODE);

/** The mesh for a request: an isolate does not know by itself which request a call is made for. */
function meshOf(c: Context): MeshClient {
  return traced(c.var.mesh, c.req.raw);
}

const entrance = new Hono<{ Bindings: Env }>();
entrance.use(connected);
entrance.route("/", handler({ fetch: (url, init, c) => meshOf(c).fetch(url, init), servedBy: "workerd" }));

const checker = check(parseDictionary(users), { servedBy: "workerd" });

const app = new Hono<{ Bindings: Env }>();
app.use(connected);
app.all("*", (c) => {
  const { OWNED, GATEWAY } = c.env;
  const options = { platform: "workerd", owned: words(OWNED), gateway: words(GATEWAY) };
  return edge({ ...options, mesh: () => meshOf(c) }).fetch(c.req.raw, c.env);
});

export default app;
