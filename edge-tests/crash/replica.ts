// A replica that is killed: `replica.ts FILE` prints where it takes requests and its key, as `selfsame --json capsule serve` does.
import type { AddressInfo } from "node:net";
import { serve, sqlite } from "selfsame";
import { openReplica, replicaHandler } from "selfsame/capsule";

const replica = await openReplica({ storage: sqlite(process.argv[2] ?? "") });
const server = await serve({ fetch: replicaHandler(replica), port: 0, hostname: "127.0.0.1" });
const { port } = server.address() as AddressInfo;
console.log(JSON.stringify({ url: `http://127.0.0.1:${port}/`, key: replica.key }));
