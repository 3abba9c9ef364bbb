/**
 * A replica in Node, in SQLite, or in Deno, in Deno KV, that is visited at `/visit`. Prints where it answers:
 *
 *     program.ts FOLDER PORT SEED
 */
import process from "node:process";
import { serve, sqlite } from "selfsame";
import { openCapsule, openReplica, replicaHandler } from "selfsame/capsule";
import { denoKv } from "selfsame/deno";

import { type Place, type Visit, visit } from "./visit.ts";

const [folder, port, seed] = process.argv.slice(2);
const isDeno = "Deno" in globalThis;
const storage = isDeno ? denoKv({ path: `${folder}/capsules.kv` }) : sqlite(`${folder}/capsules.db`);
const replica = await openReplica({ storage, seed });
const answer = replicaHandler(replica);
const open: Place["open"] = (options) => openCapsule({ ...options, storage: sqlite(`${folder}/client.db`) });
const fetch = async (request: Request): Promise<Response> => {
  if (new URL(request.url).pathname !== "/visit") return answer(request);
  return Response.json(await visit({ replica, open }, (await request.json()) as Visit));
};
await serve({ fetch, port: Number(port), hostname: "127.0.0.1" });
console.log(JSON.stringify({ url: `http://127.0.0.1:${port}/`, key: replica.key }));
process.stdin.on("end", () => process.exit(0)).resume();
