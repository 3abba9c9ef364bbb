// A replica in a Durable Object, in its SQLite, that is visited at `/visit`.
import { DurableObject } from "cloudflare:workers";
import { durableObject } from "selfsame";
import { openCapsule, openReplica, replicaHandler } from "selfsame/capsule";

import { type Place, type Visit, visit } from "./visit.ts";

/** Bindings of the Worker. */
export type Env = { NODE: DurableObjectNamespace<Node> };

/** The object. */
export class Node extends DurableObject<Env> {
  readonly #replica = openReplica({ storage: durableObject(this.ctx.storage, "capsules") });

  override async fetch(request: Request): Promise<Response> {
    const replica = await this.#replica;
    if (new URL(request.url).pathname !== "/visit") return replicaHandler(replica)(request);
    const open: Place["open"] = (options) =>
      openCapsule({ ...options, storage: durableObject(this.ctx.storage, "client") });
    return Response.json(await visit({ replica, open }, await request.json<Visit>()));
  }
}

export default {
  fetch: (request: Request, env: Env): Promise<Response> =>
    env.NODE.get(env.NODE.idFromName("node")).fetch(request),
};
