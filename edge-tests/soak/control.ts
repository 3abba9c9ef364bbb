// A Worker of no mesh, which fetches as often as it is told to. What it grows by is workerd's own.
import { DurableObject } from "cloudflare:workers";

/** Bindings of the Worker. */
export type Env = { NODE: DurableObjectNamespace<Node>; SETTINGS: string };

/** An object that fetches, as a member does that dials. */
export class Node extends DurableObject<Env> {
  /** Sends a POST and reads the answer. */
  override async fetch(): Promise<Response> {
    const { ledger } = JSON.parse(this.env.SETTINGS) as { ledger: string };
    const response = await fetch(`${ledger}/control`, { method: "POST", body: new Uint8Array(300) });
    return new Response(await response.arrayBuffer());
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    if (new URL(request.url).pathname === "/status") return Response.json({ id: "control" });
    return env.NODE.get(env.NODE.idFromName("control")).fetch(request);
  },
};
