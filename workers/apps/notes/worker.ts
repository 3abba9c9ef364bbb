/** The app on Workers: a Durable Object has the replica and the map. `SETTINGS` is the JSON of its settings. */
import { DurableObject } from "cloudflare:workers";
import type { Hono } from "hono";
import { durableObject } from "selfsame/workerd";

import { openPlace, type PlaceSettings } from "./place.ts";

/** Bindings of the Worker. */
export type Env = { NOTES: DurableObjectNamespace<Notes>; SETTINGS: string };

/** The place. */
export class Notes extends DurableObject<Env> {
  readonly #app: Promise<Hono> = openPlace(JSON.parse(this.env.SETTINGS) as PlaceSettings, {
    replica: durableObject(this.ctx.storage, "replica"),
    writer: durableObject(this.ctx.storage, "writer"),
  });

  override async fetch(request: Request): Promise<Response> {
    return (await this.#app).fetch(request);
  }
}

export default {
  fetch: (request, env) => env.NOTES.getByName("notes").fetch(request),
} satisfies ExportedHandler<Env>;
