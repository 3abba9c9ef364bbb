// A node in a Durable Object whose service `workerd` answers as the cases say, and a Worker that makes their requests.
import { WorkerEntrypoint } from "cloudflare:workers";
import { Hono } from "hono";
import { MeshNode, type MeshNodeOptions } from "selfsame";
import { mesh } from "selfsame/hono";

import { type Order, Probe, perform } from "./probe.ts";

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
}

const probe = new Probe();

/** The service. */
export class Answers extends WorkerEntrypoint<Env, { caller: string }> {
  override fetch(request: Request): Promise<Response> {
    return probe.answer(request, this.ctx.props.caller);
  }
}

const UNOWNED = { unowned: true } as const;

const app = new Hono<{ Bindings: Env }>();
app.use(mesh((c) => (c.env as Env).NODE));
app.get("/status", async (c) => c.json(await c.var.mesh.status()));
app.post("/", async (c) => {
  const order = (await c.req.json()) as Order;
  return c.json(await perform((url, init) => c.var.mesh.fetch(url, { ...init, ...UNOWNED }), order));
});

export default app;
