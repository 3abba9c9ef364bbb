// The Worker under test: nodes in Durable Objects of one namespace, which reach each other through their stubs.
import { WorkerEntrypoint } from "cloudflare:workers";
import { MeshNode, type MeshNodeOptions, type MeshProps } from "selfsame";

/** Bindings of the Worker under test. */
export type Env = { NODE: DurableObjectNamespace<Node> };

/** The owner of every name in these tests. */
export const OWNER_SEED: string = "07".repeat(32);

/** Each object's name is its host name: `a` answers at `http://a.test/.mesh`. The first is the bootstrap of all. */
export class Node extends MeshNode<Env> {
  /** Random for each life of the object. */
  readonly life: string = crypto.randomUUID();

  override options = (env: Env): MeshNodeOptions => {
    const { name } = this.ctx.id;
    return {
      network: "edge-tests",
      seed: seedOf(name ?? ""),
      address: [`ws://${name}.test/.mesh`, `http://${name}.test/.mesh`],
      bootstrap: BOOTSTRAPS[name ?? ""],
      ownerSeed: OWNER_SEED,
      allowPrivate: true,
      domain: name,
      dial: (address) => {
        const { hostname } = new URL(address);
        return env.NODE.get(env.NODE.idFromName(hostname.replace(/\.test$/, "")));
      },
    };
  };

  override services: Record<string, string> = { echo: "Echo" };
}

/** Tells who called and what arrived. */
export class Echo extends WorkerEntrypoint<Env, MeshProps> {
  override async fetch(request: Request): Promise<Response> {
    const { caller, assurance } = this.ctx.props;
    const { pathname, search } = new URL(request.url);
    const headers = Object.fromEntries(request.headers);
    return Response.json({ caller, assurance, path: pathname + search, headers, body: await request.text() });
  }
}

/** Secret seeds of the nodes, so that their ids are known before they start. */
export function seedOf(name: string): string {
  const bytes = new TextEncoder().encode(name.padEnd(32, "."));
  return [...bytes.subarray(0, 32)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Who joins through whom. */
export const BOOTSTRAPS: Record<string, string> = {};

export default {
  fetch: (): Response => new Response("nodes answer at their stubs"),
};
