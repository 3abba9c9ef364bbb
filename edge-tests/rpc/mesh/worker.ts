// A node in a Durable Object whose service `worker-echo` isolates of the Worker answer, with tickets and in sessions, and a Worker that
// calls others.
import { WorkerEntrypoint } from "cloudflare:workers";
import { Hono } from "hono";
import { MeshNode, type MeshNodeOptions, type MeshProps } from "selfsame";
import { mesh } from "selfsame/hono";
import { createRpcClient, createRpcServer, type RpcServer } from "selfsame/rpc";

/** Bindings of the Worker. */
export type Env = { NODE: DurableObjectNamespace<Node>; URL: string; BOOTSTRAP: string; NETWORK: string };

const SERVICE = "worker-echo";
const UNOWNED = { unowned: true } as const;

/** The node. */
export class Node extends MeshNode<Env> {
  override options = (env: Env): MeshNodeOptions => ({
    network: env.NETWORK,
    address: [`${env.URL.replace("http", "ws")}/.mesh`, `${env.URL}/.mesh`],
    bootstrap: env.BOOTSTRAP,
    allowPrivate: true,
  });

  override services = { [SERVICE]: { entrypoint: "Tickets", unowned: true } };
}

let server: RpcServer | undefined;

/** The replica of this isolate, which answers with who calls and what it gets. */
function replica({ NETWORK }: Env): RpcServer {
  server ??= createRpcServer({
    service: SERVICE,
    network: NETWORK,
    ticketKey: new Uint8Array(32).fill(3),
    idempotent: true,
    stateless: true,
    handler: ({ caller, payload }) =>
      new TextEncoder().encode(`${caller} ${new TextDecoder().decode(payload)}`),
  });
  return server;
}

/** The service: calls in sessions, and tickets. */
export class Tickets extends WorkerEntrypoint<Env, MeshProps> {
  override async fetch(request: Request): Promise<Response> {
    const { caller, assurance } = this.ctx.props;
    if (assurance !== "session") return new Response(null, { status: 403 });
    return replica(this.env).answerPeer(request, caller, `${this.env.URL}/rpc`);
  }
}

const app = new Hono<{ Bindings: Env }>();
app.use(mesh((c) => (c.env as Env).NODE));
app.get("/status", async (c) => c.json(await c.var.mesh.status()));
app.post("/rpc", (c) => replica(c.env).fetch(c.req.raw));
app.post("/call/:service", async (c) => {
  using client = createRpcClient({ mesh: c.var.mesh, lookup: UNOWNED, allowPrivate: true });
  const payload = new Uint8Array(await c.req.arrayBuffer());
  return c.body((await client.call(c.req.param("service"), payload)).payload);
});

export default app;
