import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type StoreFactory, serve } from "selfsame";
import { openReplica, type Replica, replicaHandler } from "selfsame/capsule";

/** A replica in this process that answers at a URL. */
export interface LocalReplica {
  readonly replica: Replica;
  /** The key that it signs with. */
  readonly key: string;
  readonly url: string;
  close(): Promise<void>;
}

/** Opens the replica in a store, and answers for it over HTTP. */
export async function startLocalReplica(storage: StoreFactory): Promise<LocalReplica> {
  const replica = await openReplica({ storage });
  const server: Server = await serve({ fetch: replicaHandler(replica), port: 0, hostname: "127.0.0.1" });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const close = async (): Promise<void> => {
    server.close();
    server.closeAllConnections();
    await replica.close();
  };
  return { replica, key: replica.key, url, close };
}
