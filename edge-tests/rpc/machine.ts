import { InputBatch, readItems } from "../../runtime/src/codec/batch.ts";
import { type RpcInput, type RpcOutput, rpcInputCodec, rpcOutputCodec } from "../../runtime/src/codec/rpc.ts";
import type { Instances, RpcInstance } from "./modules.ts";

/** A client, server or router in an instance of rpc.wasm. */
export class Machine {
  /** Time of the next step, if nothing arrives before. */
  wake_us = Number.POSITIVE_INFINITY;
  readonly #pool: Instances;
  readonly #instance: RpcInstance;
  readonly #handle: number;
  readonly #batch: InputBatch<RpcInput> = new InputBatch(rpcInputCodec);
  #isAlive = true;

  constructor(pool: Instances, config: Uint8Array) {
    this.#pool = pool;
    this.#instance = pool.take();
    this.#handle = this.#instance.create(config);
    if (this.#handle === 0) throw new Error("rpc.wasm refused a configuration");
  }

  /** Whether the machine was not ended. */
  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** Size of the instance's memory. */
  get memoryBytes(): number {
    return this.#instance.memoryBytes;
  }

  /** Steps the machine and returns its outputs but for `Wake`. */
  step(now_us: number, inputs: readonly RpcInput[]): RpcOutput[] {
    this.#batch.clear();
    for (const input of inputs) this.#batch.push(input);
    const outputs = readItems(this.stepBatch(this.#batch.finish(now_us))).map((item) =>
      rpcOutputCodec.decode(item),
    );
    const wake = outputs.pop();
    if (wake?.type !== "Wake") throw new Error("the last output of a batch is not Wake");
    this.wake_us = wake.unix_us;
    return outputs;
  }

  /** Steps the machine with a batch as it is. */
  stepBatch(batch: Uint8Array): Uint8Array {
    if (!this.#isAlive) throw new Error("the machine was ended");
    return this.#instance.step(this.#handle, batch);
  }

  /** Ends the machine as a crash does: nothing of it is left. */
  end(): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    this.#instance.destroy(this.#handle);
    this.#pool.give(this.#instance);
  }
}
