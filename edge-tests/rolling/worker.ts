// Four nodes in Durable Objects that serve `greeting`, and an entrance that calls it.
import { WorkerEntrypoint } from "cloudflare:workers";
import { Hono } from "hono";
import { MeshNode, type MeshNodeOptions, type ServiceOptions } from "selfsame";
import { mesh } from "selfsame/hono";

import { GREETING, type Published } from "./greeting.ts";

/** Bindings of the Worker. */
export type Env = {
  NODE: DurableObjectNamespace<Node>;
  NETWORK: string;
  URL: string;
  BOOTSTRAP: string;
  OWNER: string;
  /** Names of the objects. */
  NODES: string;
};

const PUBLISHED = "published";

/** One node; it serves what it was told to, also after it has started again. */
export class Node extends MeshNode<Env> {
  readonly #name: string = this.ctx.id.name ?? "";
  readonly #published: Published | undefined = this.ctx.storage.kv.get<Published>(PUBLISHED);

  override options = (env: Env): MeshNodeOptions => ({
    network: env.NETWORK,
    address: [`${env.URL.replace("http", "ws")}/.mesh/${this.#name}`, `${env.URL}/.mesh/${this.#name}`],
    bootstrap: env.BOOTSTRAP.split(" "),
    owner: { [GREETING]: env.OWNER },
    allowPrivate: true,
    domain: "workerd",
  });

  override services: Record<string, ServiceOptions> =
    this.#published === undefined
      ? {}
      : { [GREETING]: { ...this.#published, entrypoint: `Greeting${this.#published.version}` } };

  /** Serves from the next start on. */
  configure(published: Published): void {
    this.ctx.storage.kv.put(PUBLISHED, published);
  }

  /** Ends the object as a deployment or a crash does. */
  restart(): void {
    this.ctx.abort("restart");
  }
}

/** The service, version 1. */
export class Greeting1 extends WorkerEntrypoint<Env> {
  override fetch(): Response {
    return new Response("hello", { headers: { version: "1" } });
  }
}

/** The service, version 2. */
export class Greeting2 extends WorkerEntrypoint<Env> {
  override fetch(): Response {
    return new Response("hello again", { headers: { version: "2" } });
  }
}

const app = new Hono<{ Bindings: Env }>();
app.use("*", (c, next) => mesh(({ env }) => (env as Env).NODE, { nodes: c.env.NODES.split(" ") })(c, next));
app.get("/status/:node", async (c) => c.json(await objectOf(c.env, c.req.param("node")).status()));
app.get("/call", (c) => c.var.mesh.fetch(`https://${GREETING}.mesh/`));
app.post("/configure/:node", async (c) => {
  await objectOf(c.env, c.req.param("node")).configure(await c.req.json<Published>());
  return restart(c.env, c.req.param("node"));
});
app.post("/publish/:node", async (c) => {
  await objectOf(c.env, c.req.param("node")).publish(GREETING, await c.req.json<Published>());
  return c.text("published");
});
app.post("/restart/:node", (c) => restart(c.env, c.req.param("node")));

async function restart(env: Env, name: string): Promise<Response> {
  // The object that ends cannot answer.
  await objectOf(env, name)
    .restart()
    .catch(() => undefined);
  return Response.json(await objectOf(env, name).status());
}

function objectOf(env: Env, name: string): DurableObjectStub<Node> {
  return env.NODE.get(env.NODE.idFromName(name));
}

export default app;
