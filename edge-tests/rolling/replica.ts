/**
 * A replica of `greeting` on Node or Deno. It prints its id, and publishes what it is told to:
 *
 *     replica.ts '{"network", "port", "bootstrap", "owner"}'
 *     curl -d '{"grant", "version", "weight"}' http://127.0.0.1:PORT/publish
 */
import process from "node:process";
import { join, memory, serve } from "selfsame";

import { GREETING, type Published } from "./greeting.ts";

/** How a replica is started. */
export type ReplicaSettings = { network: string; port: number; bootstrap: string[]; owner: string };

const settings = JSON.parse(process.argv[2] ?? "") as ReplicaSettings;
const { port, network, bootstrap, owner } = settings;
const mesh = await join({
  network,
  bootstrap,
  address: [`ws://127.0.0.1:${port}/.mesh`, `http://127.0.0.1:${port}/.mesh`],
  owner: { [GREETING]: owner },
  storage: memory(),
  allowPrivate: true,
});
let isServed = false;

async function publish({ grant, version, weight }: Published): Promise<Response> {
  const options = { grant, version, weight };
  if (isServed) await mesh.publish(GREETING, options);
  else await mesh.serve(GREETING, () => new Response("hello", { headers: { version } }), options);
  isServed = true;
  return new Response("published");
}

const handler = mesh.handler(async (request: Request) => publish((await request.json()) as Published));
await serve({ fetch: handler, port, hostname: "127.0.0.1" });
console.log(JSON.stringify({ id: mesh.id, url: `http://127.0.0.1:${port}` }));
process.stdin.on("end", () => process.exit(0)).resume();
