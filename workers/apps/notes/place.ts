import { Hono } from "hono";
import {
  type CapsuleServer,
  type MapOptions,
  openMap,
  openReplica,
  type ReplicaOptions,
  replicaHandler,
  replicate,
} from "selfsame/capsule";

import { notes } from "./index.ts";

/** One of the places at which the app runs: each has a replica of the capsule and writes with a key of its own. */
export type PlaceSettings = {
  /** What it is called in the header `served-by`. */
  readonly platform: string;
  /** The signed metadata of the capsule, in base64. */
  readonly metadata: string;
  /** The seed of its replica and that of its writer, 64 hex digits each. Secret. */
  readonly seeds: { readonly replica: string; readonly writer: string };
  /** The replicas of all places, its own the first. */
  readonly servers: readonly CapsuleServer[];
};

/** Where a place keeps its replica and what its writer must not forget: two stores. */
export type PlaceStores = {
  readonly replica: ReplicaOptions["storage"];
  readonly writer: MapOptions["storage"];
};

/** How often replicas are compared, in milliseconds. */
const INTERVAL_MS = 2000;
/** How long a place waits for another one that does not answer, in milliseconds. */
const TIMING = { hedge_ms: 100, attempt_ms: 1000, avoid_ms: 2000, deadline_ms: 10_000 };

/** Opens a place and returns what answers its requests: its replica at `/capsule`, and the app at the rest. */
export async function openPlace(settings: PlaceSettings, stores: PlaceStores): Promise<Hono> {
  const { platform, servers, seeds } = settings;
  const metadata = Uint8Array.from(atob(settings.metadata), (character) => character.charCodeAt(0));
  const replica = await openReplica({ storage: stores.replica, seed: seeds.replica });
  const answer = replicaHandler(replica);
  const [, ...others] = servers;
  replicate(replica, { urls: others.map(({ url }) => url), interval_ms: INTERVAL_MS });
  const writer = { metadata, seed: seeds.writer, storage: stores.writer };
  const map = await openMap({ ...writer, servers: [replica, ...others], timing: TIMING });
  const app = new Hono();
  app.post("/capsule", (c) => answer(c.req.raw));
  app.route("/", notes({ map, platform }));
  return app;
}
