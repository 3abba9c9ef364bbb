/** A node outside the object under test. */
import { env } from "cloudflare:workers";
import core from "selfsame/core.wasm";
import { join, type Mesh, memory } from "selfsame/slim";

import { OWNER_SEED } from "./worker.ts";

/** Joins as a leaf through an object. */
export async function joinAsLeaf(name: string): Promise<Mesh> {
  const { NODE } = env;
  const { id } = await NODE.get(NODE.idFromName(name)).status();
  return join({
    module: core,
    network: "edge-tests",
    bootstrap: `ws://${name}.test/.mesh#${id}`,
    storage: memory(),
    ownerSeed: OWNER_SEED,
    allowPrivate: true,
  });
}
