// A node in a Durable Object that serves `workerd` over WebSocket, and a Worker that opens WebSockets through it.
import { WorkerEntrypoint } from "cloudflare:workers";
import { Hono } from "hono";
import { MeshNode, type MeshNodeOptions } from "selfsame";
import { mesh } from "selfsame/hono";

import { accept, PROTOCOL, type Socket, talk } from "./talk.ts";

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

  override services = { workerd: { entrypoint: "Talk", unowned: true } };
}

/** How the last socket was closed. */
let ended = "";

/** The service. */
export class Talk extends WorkerEntrypoint<Env> {
  override fetch(request: Request): Response {
    const { pathname } = new URL(request.url);
    if (pathname === "/ended") return new Response(ended);
    if (pathname === "/refused") return new Response("not you", { status: 403 });
    const { 0: client, 1: server } = new WebSocketPair();
    accept(server as unknown as Socket, (how) => {
      ended = how;
    });
    server.accept();
    return new Response(null, {
      status: 101,
      webSocket: client,
      headers: { "sec-websocket-protocol": PROTOCOL },
    });
  }
}

const UNOWNED = { unowned: true } as const;

const app = new Hono<{ Bindings: Env }>();
app.use(mesh((c) => (c.env as Env).NODE));
app.get("/status", async (c) => c.json(await c.var.mesh.status()));
app.get("/talk/:name", async (c) => {
  const url = `wss://${c.req.param("name")}.mesh/`;
  return c.json(await talk((protocols) => c.var.mesh.webSocket(url, protocols, UNOWNED) as Socket));
});
app.get("/through/:name", (c) => {
  const request = new Request(`https://${c.req.param("name")}.mesh/`, c.req.raw);
  return c.var.mesh.fetch(request, UNOWNED);
});

export default app;
