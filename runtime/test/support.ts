import { createServer } from "node:net";
import type { NodeJoinOptions } from "../src/entries/node.ts";
import { join, memory, type NodeMesh } from "../src/entries/node.ts";

/** A port on loopback that nobody listens at. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      if (typeof address !== "object" || address === null) return reject(new Error("no port"));
      server.close(() => resolve(address.port));
    });
  });
}

/** How long a condition may take to come true. */
const PATIENCE_MS = 15_000;

/** Waits for a condition; fails with its name when it does not come true. */
export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`in ${PATIENCE_MS} ms it did not come true that ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The owner of the names in the tests. */
export const OWNER_SEED: string = "11".repeat(32);

/** A node and where to reach it. */
export interface TestNode {
  mesh: NodeMesh;
  /** Its address with its id. */
  bootstrap: string;
}

/** Starts a member that listens on loopback by `ws`, for POSTs alone by `http`, or by `tcp`. */
export async function member(
  options: Partial<NodeJoinOptions> & { scheme?: "ws" | "http" | "tcp" } = {},
): Promise<TestNode> {
  const { scheme = "ws", ...rest } = options;
  const port = await freePort();
  const address = `${scheme}://127.0.0.1:${port}${scheme === "tcp" ? "" : "/.mesh"}`;
  const mesh = await join({
    network: "test",
    storage: memory(),
    listen: scheme === "tcp" ? address : { port, hostname: "127.0.0.1" },
    address,
    allowPrivate: true,
    ...rest,
  });
  return { mesh, bootstrap: `${address}#${mesh.id}` };
}

/** Starts a leaf: a node that nobody can dial. */
export function leaf(bootstrap: string, options: Partial<NodeJoinOptions> = {}): Promise<NodeMesh> {
  return join({ network: "test", storage: memory(), bootstrap, allowPrivate: true, ...options });
}
