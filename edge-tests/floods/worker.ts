// A member in a Durable Object that is flooded: it answers what it was asked.
import { WorkerEntrypoint } from "cloudflare:workers";
import { MeshNode, type MeshNodeOptions, type ServiceOptions } from "selfsame";

import type { MemberSettings } from "./ports.ts";

/** Bindings of the Worker. */
export type Env = {
  NODE: DurableObjectNamespace<Node>;
  /** The settings, as JSON. */
  SETTINGS: string;
  URL: string;
};

const settingsOf = (env: Env): MemberSettings => JSON.parse(env.SETTINGS) as MemberSettings;

/** The member. */
export class Node extends MeshNode<Env> {
  override options = (env: Env): MeshNodeOptions => {
    const { network, bootstrap } = settingsOf(env);
    return { network, bootstrap, address: `${env.URL}/.mesh` };
  };

  override services: Record<string, ServiceOptions> = {
    [settingsOf(this.env).name]: { entrypoint: "Echo", unowned: true },
  };
}

/** The service. */
export class Echo extends WorkerEntrypoint<Env> {
  override async fetch(request: Request): Promise<Response> {
    return new Response(await request.text());
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const node = env.NODE.get(env.NODE.idFromName("node"));
    return new URL(request.url).pathname === "/.mesh"
      ? node.fetch(request)
      : Response.json(await node.status());
  },
};
