// A node with a replica in a Durable Object, and a Worker that lets its alarm come.
import { MeshNode, type MeshNodeOptions } from "selfsame";
import { capsules } from "selfsame/capsule";

/** Bindings of the Worker. */
export type Env = {
  NODE: DurableObjectNamespace<Node>;
  NETWORK: string;
  URL: string;
  BOOTSTRAP: string;
  SEED: string;
  KEEP: string;
};

/** The node. */
export class Node extends MeshNode<Env> {
  override options = (env: Env): MeshNodeOptions => ({
    network: env.NETWORK,
    address: [`${env.URL.replace("http", "ws")}/.mesh`, `${env.URL}/.mesh`],
    bootstrap: env.BOOTSTRAP,
    allowPrivate: true,
  });

  // Each alarm finds that a round is due: the test lets them come.
  override more = capsules({ seed: this.env.SEED, replicate: { keep: [this.env.KEEP], interval_ms: 1 } });

  /** What an alarm does, now. */
  round(): Promise<void> {
    return this.alarm();
  }

  /** Ends the object as a deployment or a crash does. */
  restart(): void {
    this.ctx.abort("restart");
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const stub = env.NODE.get(env.NODE.idFromName("node"));
    const { pathname } = new URL(request.url);
    if (pathname === "/.mesh") return stub.fetch(request);
    if (pathname === "/round") await stub.round();
    // The object that ends cannot answer.
    if (pathname === "/restart") await stub.restart().catch(() => undefined);
    return Response.json(await env.NODE.get(env.NODE.idFromName("node")).status());
  },
};
