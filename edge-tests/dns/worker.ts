// A Durable Object that looks certificates up for whoever asks.
import { DurableObject } from "cloudflare:workers";
import { createResolver } from "selfsame/admission";

import { type Errand, runErrand } from "./errand.ts";

/** Bindings of the Worker. */
export type Env = { NODE: DurableObjectNamespace<Node> };

/** The object. */
export class Node extends DurableObject<Env> {
  override async fetch(request: Request): Promise<Response> {
    return Response.json(await runErrand(createResolver, await request.json<Errand>()));
  }
}

export default {
  fetch: (request: Request, env: Env): Promise<Response> => env.NODE.getByName("only").fetch(request),
};
