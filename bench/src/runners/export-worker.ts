// A replica in a Durable Object: `GET /?count=N` fills a new capsule and answers with the path of its export file.
import { openReplica, type Replica, replicaHandler } from "selfsame/capsule";
import { durableObject } from "selfsame/workerd";

import { fill } from "./filled.ts";

/** What workerd gives an object. */
interface ObjectState {
  readonly storage: Parameters<typeof durableObject>[0];
}

/** What workerd gives the Worker. */
interface Env {
  readonly NODE: {
    idFromName(name: string): unknown;
    get(id: unknown): { fetch(request: Request): Promise<Response> };
  };
}

/** The object. */
export class Node {
  readonly #replica: Promise<Replica>;
  readonly #client: ReturnType<typeof durableObject>;

  constructor({ storage }: ObjectState) {
    this.#replica = openReplica({ storage: durableObject(storage, "replica") });
    this.#client = durableObject(storage, "client");
  }

  async fetch(request: Request): Promise<Response> {
    const replica = await this.#replica;
    const count = new URL(request.url).searchParams.get("count");
    if (count === null) return replicaHandler(replica)(request);
    return new Response(await fill(replica, this.#client, Number(count)));
  }
}

export default {
  fetch: (request: Request, { NODE }: Env): Promise<Response> =>
    NODE.get(NODE.idFromName("replica")).fetch(request),
};
