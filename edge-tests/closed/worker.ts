// A member of a closed network in a Durable Object, and a Worker that calls services through it.
import { WorkerEntrypoint } from "cloudflare:workers";
import { Hono } from "hono";
import { MeshNode, type MeshNodeOptions, type MeshProps } from "selfsame";
import { mesh } from "selfsame/hono";

import { answering, callFrom } from "./answer.ts";
import { type ClosedSettings, joinOptions } from "./settings.ts";

/** Bindings of the Worker: its settings as JSON. */
export type Env = { NODE: DurableObjectNamespace<Node>; SETTINGS: string };

const settingsOf = ({ SETTINGS }: Env): ClosedSettings => JSON.parse(SETTINGS) as ClosedSettings;

/** The node. */
export class Node extends MeshNode<Env> {
  override options = (env: Env): MeshNodeOptions => {
    const settings = settingsOf(env);
    const url = `http://127.0.0.1:${settings.port}`;
    return {
      ...joinOptions(settings),
      address: [`${url.replace("http", "ws")}/.mesh`, `${url}/.mesh`],
      grants: { [settings.name]: settings.grant },
    };
  };

  override services = { [settingsOf(this.env).name]: "Answers" };
}

/** The service. */
export class Answers extends WorkerEntrypoint<Env, MeshProps> {
  override fetch(request: Request): Response {
    return answering(settingsOf(this.env).name)(request, this.ctx.props);
  }
}

const app = new Hono<{ Bindings: Env }>();
app.use(mesh((c) => (c.env as Env).NODE));
app.get("/key", async (c) => c.text(await c.env.NODE.getByName("mesh").nodeKey()));
app.get("/call/:name", async (c) => c.json(await callFrom(c.var.mesh, c.req.param("name"))));
app.post("/renew", async (c) => {
  await c.env.NODE.getByName("mesh").renewCertificate(await c.req.text());
  return c.body(null);
});
app.post("/revoke", async (c) => {
  await c.env.NODE.getByName("mesh").revoke(await c.req.text());
  return c.body(null);
});

export default app;
