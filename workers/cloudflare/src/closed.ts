/**
 * The Worker for a closed network, which finds its certificate in the DNS: `npx wrangler deploy src/closed.ts` with `DNS` and
 * `DNS_OVER_HTTPS`. The one of `index.ts`, for open networks, does not carry what that takes.
 */
import { Hono } from "hono";
import type { MeshNodeOptions } from "selfsame";
import { dns } from "selfsame/admission";

import open, { type Env as OpenEnv, Node as OpenNode } from "./index.ts";

export { Check, Handler } from "./index.ts";

/** Bindings and variables of the Worker. */
export type Env = OpenEnv & {
  NODE: DurableObjectNamespace<Node>;
  /** Domain of the network. */
  DNS: string;
  /** URL of a resolver over HTTPS. */
  DNS_OVER_HTTPS: string;
};

/** The member of the ring. */
export class Node extends OpenNode {
  constructor(...parameters: ConstructorParameters<typeof OpenNode>) {
    super(...parameters);
    this.options = admitted(this.options);
  }
}

/** The options of a node, with how it is admitted. */
function admitted(options: (env: OpenEnv) => MeshNodeOptions): (env: OpenEnv) => MeshNodeOptions {
  return (env) => {
    const { DNS: domain, DNS_OVER_HTTPS: dnsOverHttps } = env as Env;
    return { ...options(env), admission: dns({ domain, dnsOverHttps }) };
  };
}

const app = new Hono<{ Bindings: Env }>();
/** The key that the authority certifies; the node need not be admitted yet. */
app.get("/key", async (c) => c.text(await c.env.NODE.getByName("mesh").nodeKey()));
app.all("*", (c) => open.fetch(c.req.raw, c.env, c.executionCtx));

export default app;
