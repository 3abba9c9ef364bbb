import compiled from "../../core/capsule.wasm";
import type { Capsule } from "../capsule/client.ts";
import type { CapsuleMap, MapOptions } from "../capsule/map.ts";
import type { CapsuleOptions } from "../capsule/options.ts";
import type { Replica, ReplicaOptions } from "../capsule/replica.ts";
import { type ReplicateOptions, Replicator } from "../capsule/replicate.ts";
import { type ServeCapsulesOptions, serveCapsules } from "../capsule/serve.ts";
import { durableObject } from "../stores/durable-object.ts";
import type { Extension } from "../workerd/mesh-node.ts";
import { capsulesOf } from "./capsule-common.ts";

export * from "./capsule-common.ts";

const modules = /* @__PURE__ */ capsulesOf(() => Promise.resolve(compiled));

/** The module of capsules, which is loaded and compiled once, when it is first asked for. */
export const capsuleModule: () => Promise<WebAssembly.Module> = () => modules.capsuleModule();

/** Opens a replica: a server of capsules. */
export const openReplica: (options: ReplicaOptions) => Promise<Replica> = (options) =>
  modules.openReplica(options);

/** Opens a capsule: a client of its servers. */
export const openCapsule: (options: CapsuleOptions) => Promise<Capsule> = (options) =>
  modules.openCapsule(options);

/** Opens a map of keys to values in a capsule. */
export const openMap: (options: MapOptions) => Promise<CapsuleMap> = (options) => modules.openMap(options);

/** The table of capsules in the storage of a Durable Object. */
const TABLE = "_selfsame_capsules";

/** How a Durable Object keeps and serves capsules. */
export interface CapsulesOptions extends Omit<ReplicaOptions, "storage">, ServeCapsulesOptions {
  /**
   * Keeps up with the other replicas of its capsules, which the mesh finds by the capsules' names, and those at `urls`. Comparing
   * is due when the node has joined, and after that with the alarms that the node has anyway: about once in 75 seconds.
   */
  readonly replicate?: Omit<ReplicateOptions, "mesh"> | undefined;
}

/** Lets a `MeshNode` keep capsules in its own storage and serve them: `more = capsules({ service: "capsules" })`. */
export function capsules(options: CapsulesOptions = {}): Extension {
  return async (mesh, storage) => {
    const kept = { ...options, storage: durableObject(storage, TABLE) };
    const replica = await modules.openReplica(kept, mesh.timers);
    const { published, stop } = await serveCapsules(mesh, replica, options);
    const { replicate, log } = options;
    const replicator = replicate && new Replicator(replica, { log, ...replicate, mesh });
    const tend = async (): Promise<void> => {
      if (replicator !== undefined && replicator.due_ms <= performance.now()) await replicator.round();
    };
    const close = (): Promise<void> => {
      stop();
      replicator?.stop();
      return replica.close();
    };
    return { published, tend, close };
  };
}
