import { Replica, type ReplicaOptions } from "../capsule/replica.ts";

export { CAPSULE_TYPE, type Requested, replicaHandler } from "../capsule/http.ts";
export { type CapsuleInfo, CapsuleModule } from "../capsule/module.ts";
export { MAX_REQUEST, Replica, type ReplicaOptions } from "../capsule/replica.ts";
export { type CapsulesServed, type ServeCapsulesOptions, serveCapsules } from "../capsule/serve.ts";
export { fromBase32, toBase32 } from "../codec/base32.ts";

/** Opens replicas and modules with what `compile` gives, which is asked once. */
export function capsulesOf(compile: () => Promise<WebAssembly.Module>): {
  readonly capsuleModule: () => Promise<WebAssembly.Module>;
  readonly openReplica: (options: ReplicaOptions) => Promise<Replica>;
} {
  let compiled: Promise<WebAssembly.Module> | undefined;
  const capsuleModule = (): Promise<WebAssembly.Module> => {
    compiled ??= compile();
    return compiled;
  };
  return {
    capsuleModule,
    openReplica: async (options) => Replica.open(options, await capsuleModule()),
  };
}
