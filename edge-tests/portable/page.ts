// A replica in a page, in IndexedDB; whoever opened the page calls `visitHere`.
import { indexedDb } from "selfsame/browser";
import { openCapsule, openReplica } from "selfsame/capsule";

import { type Place, type Visit, visit } from "./visit.ts";

const replica = await openReplica({ storage: indexedDb("capsules") });
const open: Place["open"] = (options) => openCapsule({ ...options, storage: indexedDb("client") });

Object.assign(globalThis, { visitHere: (asked: Visit) => visit({ replica, open }, asked) });
document.title = "ready";
