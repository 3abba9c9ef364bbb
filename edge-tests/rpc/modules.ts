import { readFileSync } from "node:fs";

import { RPC_ABI_VERSION } from "../../runtime/src/codec/rpc.ts";
import { ModuleInstance } from "../../runtime/src/driver/instance.ts";

const KIND = { file: "rpc.wasm", version: RPC_ABI_VERSION };

/** Returns rpc.wasm as it ships. */
export function readRpc(): Uint8Array<ArrayBuffer> {
  return new Uint8Array(readFileSync(new URL("../../runtime/core/rpc.wasm", import.meta.url)));
}

/**
 * Instances of rpc.wasm that machines of many trials take turns with: each reserves gigabytes of address space, which a
 * garbage collector does not see.
 */
export class InstancePool {
  readonly #idle: ModuleInstance[] = [];

  private constructor(instances: ModuleInstance[]) {
    this.#idle = instances;
  }

  /** Makes so many instances. */
  static async of(count: number): Promise<InstancePool> {
    const module = await WebAssembly.compile(readRpc());
    return new InstancePool(
      await Promise.all(Array.from({ length: count }, () => ModuleInstance.of(module, KIND))),
    );
  }

  /** Takes an instance in which no machine lives. */
  take(): ModuleInstance {
    const instance = this.#idle.pop();
    if (instance === undefined) throw new Error("more machines live than the pool has instances");
    return instance;
  }

  /** Gives back an instance whose machine was destroyed. */
  give(instance: ModuleInstance): void {
    this.#idle.push(instance);
  }
}
