import type { Capsule } from "../capsule/client.ts";
import type { CapsuleMap, MapOptions } from "../capsule/map.ts";
import type { CapsuleOptions } from "../capsule/options.ts";
import type { Replica, ReplicaOptions } from "../capsule/replica.ts";
import { capsuleBase64 } from "../capsule-base64.js";
import { capsulesOf } from "./capsule-common.ts";

export * from "./capsule-common.ts";

const capsules = /* @__PURE__ */ capsulesOf(() =>
  WebAssembly.compile(Uint8Array.from(atob(capsuleBase64), (character) => character.charCodeAt(0))),
);

/** The module of capsules, which is loaded and compiled once, when it is first asked for. */
export const capsuleModule: () => Promise<WebAssembly.Module> = () => capsules.capsuleModule();

/** Opens a replica: a server of capsules. */
export const openReplica: (options: ReplicaOptions) => Promise<Replica> = (options) =>
  capsules.openReplica(options);

/** Opens a capsule: a client of its servers. */
export const openCapsule: (options: CapsuleOptions) => Promise<Capsule> = (options) =>
  capsules.openCapsule(options);

/** Opens a map of keys to values in a capsule. */
export const openMap: (options: MapOptions) => Promise<CapsuleMap> = (options) => capsules.openMap(options);
