// A replica in Deno, in SQLite, over HTTP: `deno run --allow-all export-deno.ts FOLDER`, then lines. `fill COUNT` fills a new capsule
// and answers with the URL of its export file.
import { mkdtemp, rm } from "node:fs/promises";
import path from "node:path";
import process from "node:process";

import { openReplica, replicaHandler } from "selfsame/capsule";
import { memory, serve, sqlite } from "selfsame/deno";

import { fill } from "./filled.ts";
import { serveLines } from "./lines.ts";

const folder = await mkdtemp(path.join(process.argv[2] ?? "", "export-"));
const replica = await openReplica({ storage: sqlite(path.join(folder, "replica.db")) });
const server = serve({ fetch: replicaHandler(replica), port: 0, hostname: "127.0.0.1" });
try {
  await serveLines(
    async () => async (count) =>
      `http://127.0.0.1:${server.addr.port}/${await fill(replica, memory(), count)}`,
  );
} finally {
  await server.shutdown();
  await replica.close();
  await rm(folder, { recursive: true, force: true });
}
