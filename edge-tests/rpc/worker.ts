// A replica in each isolate, at `/rpc`, and one in a Durable Object, at `/object`.
import { DurableObject } from "cloudflare:workers";

import { Replica } from "./echo.ts";

/** Bindings of the Worker. */
export type Env = { NODE: DurableObjectNamespace<Node>; NAME: string; KEY: string };

/** The object, which remembers the calls that it has carried out. */
export class Node extends DurableObject<Env> {
  readonly #replica = new Replica(`${this.env.NAME} object`, this.env.KEY, false);

  override fetch(request: Request): Promise<Response> {
    return this.#replica.fetch(request);
  }
}

let replica: Replica | undefined;

export default {
  fetch: (request: Request, env: Env): Promise<Response> => {
    if (new URL(request.url).pathname === "/object") return env.NODE.getByName("only").fetch(request);
    replica ??= new Replica(env.NAME, env.KEY, true);
    return replica.fetch(request);
  },
};
