import { WorkerEntrypoint } from "cloudflare:workers";
import { type Context, Hono } from "hono";
import { durableObject, type Extension, MeshNode, type MeshNodeOptions } from "selfsame";
import { capsules } from "selfsame/capsule";
import { type MeshClient, mesh } from "selfsame/hono";
import { createRpcClient, type RpcClient, type RpcMesh } from "selfsame/rpc";
import { telemetry, traced } from "selfsame/telemetry";
import { Attempts, check, handler, type Login, parseDictionary } from "selfsame-apps/appauth";
import users from "selfsame-apps/appauth/users.json" with { type: "json" };
import { AuditLog, audit, auditOf, type SignIn } from "selfsame-apps/audit";
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
  RPC: string;
  ALLOW_PRIVATE: string;
  AUDIT: string;
  AUDIT_SEED: string;
};

/** What this node is told apart by. */
const PLATFORM = "workerd";

/** Some checks at a time on a busy machine; whoever takes longer is asked through the mesh. */
const RPC_TIMEOUT_MS = 2000;

/** The member of the ring. It serves what it has a grant for. */
export class Node extends MeshNode<Env> {
  override options = (env: Env): MeshNodeOptions => ({
    network: env.NETWORK,
    address: [`${env.URL.replace(/^http/, "ws")}/.mesh`, `${env.URL}/.mesh`],
    bootstrap: words(env.BOOTSTRAP),
    owner: env.OWNER ? ownerOf(words(env.OWNED), env.OWNER) : undefined,
    grants: grantsOf(env.GRANTS),
    allowPrivate: env.ALLOW_PRIVATE === "1",
    domain: PLATFORM,
    telemetry: telemetry({ name: PLATFORM }),
  });

  override services: Record<string, string> = Object.fromEntries(
    Object.keys(grantsOf(this.env.GRANTS))
      .filter((name) => name !== AUDIT)
      .map((name) => [name, ENTRYPOINTS[name] ?? name]),
  );

  #log: AuditLog | undefined;
  override more: Extension | undefined = this.#keepLog();

  #rpc: { readonly mesh: RpcMesh; readonly client: RpcClient } | undefined;

  /** Calls `check` by RPC over HTTP, with a ticket that lasts while this object is awake. */
  async callCheck(login: Uint8Array): Promise<Uint8Array> {
    return this.during(async (mesh) => {
      const options = { idempotent: true, timeout_ms: RPC_TIMEOUT_MS };
      const { payload } = await this.#rpcOf(mesh).call("check", login, options);
      return payload;
    });
  }

  #rpcOf(mesh: RpcMesh): RpcClient {
    if (this.#rpc?.mesh === mesh) return this.#rpc.client;
    this.#rpc?.client.close();
    const client = createRpcClient({ mesh });
    this.#rpc = { mesh, client };
    return client;
  }

  /** Writes a sign-in to the audit log, if this node keeps one. */
  async note(signIn: SignIn): Promise<void> {
    await this.during(async () => this.#log?.note(signIn));
  }

  /** Holds the capsule of the audit log and serves what this node has verified of it, beside its own replica. */
  #keepLog(): Extension | undefined {
    const settings = auditOf(this.env.AUDIT, this.env.AUDIT_SEED);
    if (settings === undefined) return undefined;
    const { metadata, seed } = settings;
    return async (mesh, storage) => {
      const held = await capsules({ hold: [metadata], replicate: {} })(mesh, storage);
      const log = new AuditLog({ mesh, metadata, seed, storage: durableObject(storage, "_audit") });
      this.#log = log;
      const app = audit(log, { servedBy: PLATFORM });
      const grant = grantsOf(this.env.GRANTS)[AUDIT];
      const service = { name: AUDIT, handler: (request: Request) => app.fetch(request), options: { grant } };
      const { published } = await mesh.announce(grant === undefined ? [] : [service]);
      return {
        published: Promise.all([held.published, published]).then(() => undefined),
        tend: async () => held.tend?.(),
        close: async () => {
          await log.close();
          await held.close();
        },
      };
    };
  }
}

/** The service that tells of the audit log; the node answers it itself, as it has the log's client. */
const AUDIT = "audit";

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

function nodeOf(c: Context): DurableObjectStub<Node> {
  const { NODE } = c.env as Env;
  return NODE.get(NODE.idFromName("mesh"));
}

/** Calls `check` by RPC, if this Worker is told to. */
async function call(login: Uint8Array, c: Context): Promise<Uint8Array | undefined> {
  return (c.env as Env).RPC === "1" ? nodeOf(c).callCheck(login) : undefined;
}

/** Lets the node write a login to the audit log, after it is answered. */
function note(login: Login, c: Context): void {
  const noted = nodeOf(c).note({ ...login, time_ms: Date.now(), answeredBy: PLATFORM });
  c.executionCtx.waitUntil(
    noted.catch((error: unknown) => console.error("a sign-in is not in the audit log:", error)),
  );
}

const entrance = new Hono<{ Bindings: Env }>();
entrance.use(connected);
entrance.route(
  "/",
  handler({
    fetch: (url, init, c) => meshOf(c).fetch(url, init),
    call,
    servedBy: PLATFORM,
    sourceOf: (c) => c.var.caller,
    onLogin: note,
  }),
);

const checker = check(parseDictionary(users), { servedBy: PLATFORM });

/** Those of one isolate: an app is made for each request. */
const attempts = new Attempts();

/** The address of a visitor, which Cloudflare sets. */
function visitorOf(c: Context): string | undefined {
  return c.req.header("cf-connecting-ip");
}

const app = new Hono<{ Bindings: Env }>();
app.use(connected);
app.all("*", (c) => {
  const { OWNED, GATEWAY } = c.env;
  const names = { owned: words(OWNED), gateway: words(GATEWAY) };
  const options = { platform: PLATFORM, ...names, call, sourceOf: visitorOf, attempts, onLogin: note };
  return edge({ ...options, mesh: () => meshOf(c) }).fetch(c.req.raw, c.env, c.executionCtx);
});

export default app;
