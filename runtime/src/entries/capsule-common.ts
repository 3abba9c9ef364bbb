import { Capsule } from "../capsule/client.ts";
import { CapsuleMap, type MapOptions } from "../capsule/map.ts";
import type { CapsuleOptions } from "../capsule/options.ts";
import { Replica, type ReplicaOptions } from "../capsule/replica.ts";
import type { Timers } from "../driver/timers.ts";

export { exportCapsule, importCapsule } from "../capsule/archive.ts";
export {
  Capsule,
  type ForkEvidence,
  type Governing,
  type Position,
  type WriteOptions,
} from "../capsule/client.ts";
export { History, type HistoryRecord } from "../capsule/history.ts";
export {
  CAPSULE_TYPE,
  type ReplicaHandlerOptions,
  type Requested,
  type RequestOrigin,
  replicaHandler,
} from "../capsule/http.ts";
export {
  CapsuleMap,
  type MapChange,
  type MapEntry,
  type MapListOptions,
  type MapOperation,
  type MapOptions,
  type MapReadOptions,
  type MapRevision,
  type MapSubscribeOptions,
  type MapWriteOptions,
} from "../capsule/map.ts";
export {
  type CapsuleInfo,
  CapsuleModule,
  type CapsulePlan,
  type ExportInfo,
  type ProofInfo,
} from "../capsule/module.ts";
export type {
  CapsuleMesh,
  CapsuleOptions,
  CapsuleServer,
  CapsuleTiming,
  LocalReplica,
} from "../capsule/options.ts";
export { type Ask, type Peer, peerAt } from "../capsule/peers.ts";
export type {
  CapsuleDescription,
  CapsuleHead,
  CapsuleHeads,
  CapsuleRecord,
} from "../capsule/reading.ts";
export type { Authorship, RecordHeader } from "../capsule/record.ts";
export { Replica, type ReplicaOptions, type Synchronised } from "../capsule/replica.ts";
export { type ReplicateOptions, type Replicating, replicate } from "../capsule/replicate.ts";
export { MAX_REQUEST, type RequestPlace, type Room } from "../capsule/room.ts";
export { type CapsulesServed, type ServeCapsulesOptions, serveCapsules } from "../capsule/serve.ts";
export { fromBase32, toBase32 } from "../codec/base32.ts";

/** Opens replicas and modules with what `compile` gives, which is asked once. */
export function capsulesOf(compile: () => Promise<WebAssembly.Module>): {
  readonly capsuleModule: () => Promise<WebAssembly.Module>;
  readonly openReplica: (options: ReplicaOptions, timers?: Timers) => Promise<Replica>;
  readonly openCapsule: (options: CapsuleOptions) => Promise<Capsule>;
  readonly openMap: (options: MapOptions) => Promise<CapsuleMap>;
} {
  let compiled: Promise<WebAssembly.Module> | undefined;
  const capsuleModule = (): Promise<WebAssembly.Module> => {
    compiled ??= compile();
    return compiled;
  };
  return {
    capsuleModule,
    openReplica: async (options, timers) => Replica.open(options, await capsuleModule(), timers),
    openCapsule: async (options) => Capsule.open(options, await capsuleModule()),
    openMap: async (options) => CapsuleMap.open(options, await capsuleModule()),
  };
}
