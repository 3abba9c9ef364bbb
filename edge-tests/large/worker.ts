// Replicas in Durable Objects: requests to `/OBJECT/`, the memory of its module at `/OBJECT/memory`.
import { DurableObject } from "cloudflare:workers";
import { durableObject } from "selfsame";
import { openReplica, peerAt, replicaHandler } from "selfsame/capsule";

/** Bindings of the Worker. */
export type Env = { NODE: DurableObjectNamespace<Node> };

/** The object. */
export class Node extends DurableObject<Env> {
  readonly #replica = openReplica({ storage: durableObject(this.ctx.storage, "capsules") });

  override async fetch(request: Request): Promise<Response> {
    const replica = await this.#replica;
    const { pathname, searchParams } = new URL(request.url);
    const what = pathname.split("/").at(-1);
    if (what === "memory") return Response.json({ wasm: replica.memoryBytes, key: replica.key });
    if (what === "synchronise") {
      const [name = "", from = ""] = [searchParams.get("name"), searchParams.get("from")].map(String);
      return Response.json(await replica.synchronise(name, peerAt(from)));
    }
    if (what === "restart") this.ctx.abort("restart");
    return replicaHandler(replica)(request);
  }
}

export default {
  fetch: (request: Request, env: Env): Promise<Response> => {
    const [, object = ""] = new URL(request.url).pathname.split("/");
    return env.NODE.get(env.NODE.idFromName(object)).fetch(request);
  },
};
