/**
 * A member with a replica, in SQLite in Node and in Deno KV in Deno. Prints who it is and where it answers:
 *
 *     member.ts '{"network", "folder", "port", "bootstrap", "seed", "keep"}'
 *     curl -X POST http://127.0.0.1:PORT/round
 */
import process from "node:process";
import { join, serve, sqlite } from "selfsame";
import { openReplica, replicaHandler, replicate, serveCapsules } from "selfsame/capsule";
import { denoKv } from "selfsame/deno";

/** How a member is started. */
export type MemberSettings = {
  network: string;
  folder: string;
  port: number;
  bootstrap: string;
  /** Of its replica's key, as Deno KV holds none. */
  seed: string;
  keep: readonly string[];
};

/** Rounds come when they are asked for: a test does not wait for time to pass. */
const NEVER_MS = 2 ** 30;

const settings = JSON.parse(process.argv[2] ?? "") as MemberSettings;
const { network, folder, port, bootstrap, seed, keep } = settings;
const isDeno = "Deno" in globalThis;
const storage = isDeno ? denoKv({ path: `${folder}/capsules.kv` }) : sqlite(`${folder}/capsules.db`);
const replica = await openReplica({ storage, seed });
const mesh = await join({
  network,
  bootstrap,
  address: [`ws://127.0.0.1:${port}/.mesh`, `http://127.0.0.1:${port}/.mesh`],
  storage: sqlite(`${folder}/node`),
  allowPrivate: true,
});
const answer = replicaHandler(replica);
const handler = mesh.handler(async (request: Request) => {
  if (new URL(request.url).pathname !== "/round") return answer(request);
  await replicating.round();
  return new Response();
});
await serve({ fetch: handler, port, hostname: "127.0.0.1" });
const { published } = await serveCapsules(mesh, replica);
await published;
const replicating = replicate(replica, { mesh, keep, interval_ms: NEVER_MS });
await replicating.joined;
console.log(JSON.stringify({ id: mesh.id, key: replica.key, url: `http://127.0.0.1:${port}/` }));
process.stdin.on("end", () => process.exit(0)).resume();
