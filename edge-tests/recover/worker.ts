// A member in a Durable Object that serves its name, tells its status and calls others.
import { WorkerEntrypoint } from "cloudflare:workers";
import { MeshNode, type MeshNodeOptions, type ServiceOptions } from "selfsame";

import type { MemberSettings } from "./settings.ts";

/** Bindings of the Worker. */
export type Env = {
  NODE: DurableObjectNamespace<Node>;
  /** The settings, as JSON. */
  SETTINGS: string;
};

const settingsOf = (env: Env): MemberSettings => JSON.parse(env.SETTINGS) as MemberSettings;

/** The member. */
export class Node extends MeshNode<Env> {
  #endedWith: string | undefined;

  override options = (env: Env): MeshNodeOptions => {
    const { port, name: _, ...settings } = settingsOf(env);
    const authority = `127.0.0.1:${port}`;
    return {
      ...settings,
      onEvent: (event) => {
        if (event.type === "ended") this.#endedWith = event.error.name;
      },
      address: [`ws://${authority}/.mesh`, `http://${authority}/.mesh`],
      allowPrivate: true,
    };
  };

  /** Its status, or with which code it has ended. */
  async told(): Promise<Response> {
    try {
      return Response.json(await this.status());
    } catch (error) {
      return Response.json({ error: String(error), code: this.#endedWith }, { status: 503 });
    }
  }

  override services: Record<string, ServiceOptions> = {
    [settingsOf(this.env).name]: { entrypoint: "Named", unowned: true },
  };
}

/** The service: it answers its name. */
export class Named extends WorkerEntrypoint<Env> {
  override fetch(): Response {
    return new Response(settingsOf(this.env).name);
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const node = env.NODE.get(env.NODE.idFromName("node"));
    const [, question, called] = new URL(request.url).pathname.split("/");
    if (question === ".mesh") return node.fetch(request);
    if (question === "status") return node.told();
    const answered = await node.call(new Request(`https://${called}.mesh/`), { unowned: true });
    if ("response" in answered) return answered.response;
    return new Response(answered.error.message, { status: 502 });
  },
};
