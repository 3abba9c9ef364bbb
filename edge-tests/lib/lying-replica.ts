import { join, memory } from "selfsame";

import type { TestCluster } from "./cluster.ts";

/** A provider of a capsule that changes what it passes on. */
export interface LyingReplica {
  /** How many of its answers it has changed. */
  readonly lies: () => number;
  /** Ends it. */
  close(): Promise<void>;
}

/**
 * Joins the ring and publishes a capsule's name, which anybody may: it answers as the replica on Deno does, and wherever these
 * bytes are in an answer it changes one of them.
 */
export async function startLyingReplica(
  { cluster }: TestCluster,
  capsule: string,
  bytes: Uint8Array,
): Promise<LyingReplica> {
  const mesh = await join({
    network: cluster.plan.network,
    bootstrap: cluster.bootstrapOf("deno", "ws"),
    storage: memory(),
    allowPrivate: true,
    domain: "liar",
  });
  const peer = cluster.plan.ids.deno;
  let lies = 0;
  await mesh.serve(
    capsule,
    async (request) => {
      const body = await request.arrayBuffer();
      const honest = await mesh.fetch(`https://${capsule}.mesh/`, {
        method: "POST",
        body,
        peer,
        unowned: true,
      });
      const answer = Buffer.from(await honest.arrayBuffer());
      const at = answer.indexOf(bytes);
      if (at >= 0) {
        answer[at] = (answer[at] ?? 0) ^ 1;
        lies++;
      }
      return new Response(answer, { headers: { "content-type": "application/vnd.selfsame.capsule" } });
    },
    { unowned: true },
  );
  return { lies: () => lies, close: () => mesh.close() };
}
