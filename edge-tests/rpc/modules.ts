import { readFileSync } from "node:fs";

import { RPC_ABI_VERSION } from "../../runtime/src/codec/rpc.ts";
import { ModuleInstance } from "../../runtime/src/driver/instance.ts";

const KIND = { file: "rpc.wasm", version: RPC_ABI_VERSION };

/** Returns rpc.wasm as it ships. */
export function readRpc(): Uint8Array<ArrayBuffer> {
  return new Uint8Array(readFileSync(new URL("../../runtime/core/rpc.wasm", import.meta.url)));
}

/** What a machine needs of the instance of rpc.wasm that it lives in. */
export interface RpcInstance {
  /** Size of the memory. */
  readonly memoryBytes: number;
  /** Creates what a configuration describes; returns its handle, 0 if it is refused. */
  create(config: Uint8Array): number;
  /** Feeds a batch of inputs and returns the batch of outputs. */
  step(handle: number, batch: Uint8Array): Uint8Array;
  /** Ends what has this handle. */
  destroy(handle: number): void;
}

/** Where machines get their instances. */
export interface Instances {
  /** Takes an instance in which no machine lives. */
  take(): RpcInstance;
  /** Gives back an instance whose machine was destroyed. */
  give(instance: RpcInstance): void;
}

/**
 * Instances of rpc.wasm that machines of many trials take turns with: each reserves gigabytes of address space, which a
 * garbage collector does not see.
 */
export class InstancePool implements Instances {
  readonly #idle: RpcInstance[];

  private constructor(instances: RpcInstance[]) {
    this.#idle = instances;
  }

  /** Makes so many instances. */
  static async of(count: number): Promise<InstancePool> {
    const module = await WebAssembly.compile(readRpc());
    return new InstancePool(
      await Promise.all(Array.from({ length: count }, () => ModuleInstance.of(module, KIND))),
    );
  }

  take(): RpcInstance {
    const instance = this.#idle.pop();
    if (instance === undefined) throw new Error("more machines live than the pool has instances");
    return instance;
  }

  give(instance: RpcInstance): void {
    this.#idle.push(instance);
  }
}
