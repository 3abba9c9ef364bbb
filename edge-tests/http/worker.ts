// A node in a Durable Object whose service `workerd` answers as the cases say, in sessions and by RPC, and a Worker that makes their
// requests both ways.
import { WorkerEntrypoint } from "cloudflare:workers";
import { Hono } from "hono";
import { MeshNode, type MeshNodeOptions, type MeshProps } from "selfsame";
import { mesh } from "selfsame/hono";
import { createRpcClient, createRpcServer, type RpcServer, TICKET_PATH } from "selfsame/rpc";

import { DATAGRAMS, isFor, type Order, Probe, perform, REPLICA } from "./probe.ts";

/** Bindings of the Worker. */
export type Env = { NODE: DurableObjectNamespace<Node>; URL: string; BOOTSTRAP: string; NETWORK: string };

/** The node. */
export class Node extends MeshNode<Env> {
  override options = (env: Env): MeshNodeOptions => ({
    network: env.NETWORK,
    address: [`${env.URL.replace("http", "ws")}/.mesh`, `${env.URL}/.mesh`],
    bootstrap: env.BOOTSTRAP,
    allowPrivate: true,
  });

  override services = { workerd: { entrypoint: "Answers", unowned: true } };

  readonly #replica: RpcServer = replicaOf(this.env);

  /** Takes datagrams of the RPC beside frames of the mesh. */
  override async fetch(request: Request): Promise<Response> {
    return isFor(request, DATAGRAMS) ? this.#replica.fetch(request) : super.fetch(request);
  }
}

const probe = new Probe();

function replicaOf({ NETWORK }: Env): RpcServer {
  return createRpcServer({
    ...REPLICA,
    network: NETWORK,
    service: "workerd",
    fetch: (request, { caller }) => probe.answer(request, caller),
  });
}

/** Issues the tickets of this isolate. */
let issuer: RpcServer | undefined;

/** The service. */
export class Answers extends WorkerEntrypoint<Env, MeshProps> {
  override async fetch(request: Request): Promise<Response> {
    const { caller, assurance } = this.ctx.props;
    if (!isFor(request, TICKET_PATH)) return probe.answer(request, caller);
    if (assurance !== "session") return new Response(null, { status: 403 });
    issuer ??= replicaOf(this.env);
    return issuer.answerPeer(request, caller, `${this.env.URL}${DATAGRAMS}`);
  }
}

const UNOWNED = { unowned: true } as const;

const app = new Hono<{ Bindings: Env }>();
app.use(mesh((c) => (c.env as Env).NODE));
app.get("/status", async (c) => c.json(await c.var.mesh.status()));
app.post(DATAGRAMS, (c) => c.env.NODE.getByName("replica").fetch(c.req.raw));
app.post("/rpc", async (c) => {
  using client = createRpcClient({ mesh: c.var.mesh, lookup: UNOWNED, allowPrivate: true });
  return c.json(await perform((url, init) => client.fetch(url, init), (await c.req.json()) as Order));
});
app.post("/", async (c) => {
  const order = (await c.req.json()) as Order;
  return c.json(await perform((url, init) => c.var.mesh.fetch(url, { ...init, ...UNOWNED }), order));
});

export default app;
