// A leaf with a replica in IndexedDB, in a page; whoever opened the page calls `round`.
import { indexedDb, join } from "selfsame/browser";
import { openReplica, replicate, serveCapsules } from "selfsame/capsule";

const NEVER_MS = 2 ** 30;

const query = new URLSearchParams(location.search);
const replica = await openReplica({ storage: indexedDb("capsules") });
const mesh = await join({
  network: query.get("network") ?? "",
  bootstrap: query.get("bootstrap") ?? "",
  storage: indexedDb("node"),
  allowPrivate: true,
});
const { published } = await serveCapsules(mesh, replica);
await published;
const replicating = replicate(replica, { mesh, keep: query.getAll("keep"), interval_ms: NEVER_MS });
await replicating.joined;

Object.assign(globalThis, { round: replicating.round, who: { id: mesh.id, key: replica.key } });
document.title = "ready";
