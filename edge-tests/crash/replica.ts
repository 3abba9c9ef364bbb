// A replica that is killed: `replica.ts FILE` prints the port at which it takes requests.
import type { AddressInfo } from "node:net";
import { serve, sqlite } from "selfsame";
import { openReplica, replicaHandler } from "selfsame/capsule";

const replica = await openReplica({ storage: sqlite(process.argv[2] ?? "") });
const server = await serve({ fetch: replicaHandler(replica), port: 0, hostname: "127.0.0.1" });
console.log((server.address() as AddressInfo).port);
