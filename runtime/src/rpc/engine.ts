import { InputBatch, readItems } from "../codec/batch.ts";
import { MeshError } from "../codec/code.ts";
import {
  RPC_ABI_VERSION,
  type RpcInput,
  type RpcOutput,
  rpcInputCodec,
  rpcOutputCodec,
} from "../codec/rpc.ts";
import { ModuleInstance } from "../driver/instance.ts";
import type { Logger } from "../driver/log.ts";
import { timeoutTimer } from "../driver/timer.ts";
import type { Timer, Timers, WakeTimer } from "../driver/timers.ts";
import { Traps } from "../driver/traps.ts";
import { detach } from "../guard.ts";
import { Clock } from "./clock.ts";

const KIND = { file: "rpc.wasm", version: RPC_ABI_VERSION };

/** Bytes of items that are batched; a longer one comes alone. Larger batches save nothing and take memory several times. */
const MAX_BATCH: number = 1024 * 1024;
/** Bytes of items up to which batches share a buffer. */
const MAX_KEPT_BATCH: number = 64 * 1024;
/** Bytes of the fields of fixed length of one item, at most. */
const ITEM_BYTES = 128;

/** The outputs that a client or a server follows. */
export type RoleOutput = Exclude<RpcOutput, { type: "Wake" | "Refused" }>;

/** The parts of an engine. */
export interface EngineParts {
  readonly module: WebAssembly.Module;
  readonly timers: Timers;
  readonly logger: Logger;
  /** Makes the configuration of each instance, which is wiped after use. */
  readonly config: () => Uint8Array;
  /** Learns that an instance begins, which knows nothing yet. */
  readonly began?: (engine: Engine) => void;
  /** Carries an output out. Bytes are views. */
  readonly take: (output: RoleOutput) => void;
  /** Learns of an input that the module refuses. */
  readonly refused: (input: RpcInput, code: number) => void;
  /** Learns that everything under way is lost. */
  readonly lost: (error: MeshError) => void;
}

interface Queued {
  readonly input: RpcInput;
  readonly stepped: (() => void) | undefined;
}

/** Makes an instance of rpc.wasm. */
export function instantiate(module: WebAssembly.Module): Promise<ModuleInstance> {
  return ModuleInstance.of(module, KIND);
}

/** Steps a client or a server of rpc.wasm: all inputs of one turn in one step, and again when it asks to be woken. */
export class Engine {
  readonly #parts: EngineParts;
  readonly #clock: Clock = new Clock();
  readonly #traps: Traps = new Traps();
  readonly #timer: WakeTimer;
  readonly #batch: InputBatch<RpcInput> = new InputBatch(rpcInputCodec, MAX_KEPT_BATCH);
  #instance: ModuleInstance | undefined;
  #handle = 0;
  #inputs: Queued[] = [];
  #pause: Timer | undefined;
  #failure: MeshError | undefined;
  #isClosed = false;
  #isFlushing = false;
  #isScheduled = false;

  constructor(instance: ModuleInstance, parts: EngineParts) {
    this.#parts = parts;
    this.#timer = timeoutTimer(() => this.#flush(), parts.timers);
    this.#begin(instance);
  }

  /** Why it takes nothing now; `undefined` while it runs. */
  get failure(): MeshError | undefined {
    return this.#failure;
  }

  /** Takes an input, which this turn's step sees; `stepped` is called after that. */
  push(input: RpcInput, stepped?: () => void): void {
    if (this.#failure !== undefined) return;
    this.#inputs.push({ input, stepped });
    if (this.#isFlushing || this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  /** Gives the module an input as of an earlier time than that of any step before. */
  replay(input: RpcInput, at_us: number): void {
    this.#inputs.push({ input, stepped: undefined });
    this.#flush(at_us);
  }

  /** Gives the module what waits, then ends it, which wipes its keys: everything under way fails. */
  close(): void {
    if (this.#isClosed) return;
    this.#flush();
    this.#isClosed = true;
    this.#pause?.cancel();
    this.#stop(new MeshError("Cancelled", "the RPC was closed"));
    this.#instance?.destroy(this.#handle);
    this.#instance = undefined;
  }

  #begin(instance: ModuleInstance): void {
    const config = this.#parts.config();
    this.#handle = instance.create(config);
    if (this.#handle === 0) throw new MeshError("BadConfig", "rpc.wasm refuses the configuration");
    this.#instance = instance;
    this.#failure = undefined;
    this.#parts.began?.(this);
  }

  #flush(at_us?: number): void {
    const instance = this.#instance;
    if (this.#isFlushing || instance === undefined) return;
    this.#isFlushing = true;
    try {
      do this.#step(instance, at_us);
      while (this.#inputs.length > 0 && this.#instance === instance);
    } catch (error) {
      this.#trapped(error);
    } finally {
      this.#isFlushing = false;
    }
  }

  #step(instance: ModuleInstance, at_us: number = this.#clock.now_us()): void {
    const { batch, taken } = this.#takeBatch();
    const outputs = instance.step(this.#handle, batch.finish(at_us));
    if (taken.some(({ input }) => isSecret(input))) wipe(batch);
    for (const item of readItems(outputs)) {
      const output = rpcOutputCodec.decode(item);
      if (output.type === "Wake") this.#timer.schedule(Math.ceil(output.unix_us / 1000));
      else if (output.type === "Refused") this.#refused(taken[output.input], output.code);
      else this.#parts.take(output);
    }
    for (const { stepped } of taken) stepped?.();
  }

  #takeBatch(): { batch: InputBatch<RpcInput>; taken: Queued[] } {
    let [count, bytes] = [0, 0];
    for (const { input } of this.#inputs) {
      const more = sizeOf(input);
      if (count > 0 && bytes + more > MAX_BATCH) break;
      count++;
      bytes += more;
    }
    const batch = bytes > MAX_KEPT_BATCH ? new InputBatch<RpcInput>(rpcInputCodec, bytes) : this.#batch;
    batch.clear();
    const taken = this.#inputs.splice(0, count);
    for (const { input } of taken) batch.push(input);
    return { batch, taken };
  }

  #refused(queued: Queued | undefined, code: number): void {
    if (queued === undefined) return this.#parts.logger.log("error", "rpc.wasm refused a batch", code);
    this.#parts.refused(queued.input, code);
  }

  #stop(error: MeshError): void {
    this.#failure = error;
    this.#inputs = [];
    this.#timer.cancel();
    this.#parts.lost(error);
  }

  /** The instance is poisoned: everything under way fails, and another one begins after a pause. */
  #trapped(cause: unknown): void {
    if (this.#isClosed) return;
    this.#instance = undefined;
    this.#stop(new MeshError("Disconnected", "rpc.wasm failed and starts anew: call again", { cause }));
    this.#restartAfter("rpc.wasm failed", cause);
  }

  #restartAfter(what: string, cause: unknown): void {
    const { pause_ms, traps } = this.#traps.note(performance.now());
    const { module, logger, timers } = this.#parts;
    const text = cause instanceof Error ? cause.message : String(cause);
    logger.log("error", `${what}, ${traps} times lately, and starts anew in ${pause_ms} ms: ${text}`);
    const restart = async (): Promise<void> => {
      try {
        const instance = await instantiate(module);
        if (!this.#isClosed) this.#begin(instance);
      } catch (error) {
        if (!this.#isClosed) this.#restartAfter("rpc.wasm did not start", error);
      }
    };
    this.#pause = timers.after(pause_ms, () => detach("a restart", restart()));
  }
}

/** Whether an input holds the secret of a ticket or of all. */
function isSecret({ type }: RpcInput): boolean {
  return type === "SetTicketKeys" || type === "UseTicket";
}

function wipe(batch: InputBatch<RpcInput>): void {
  new Uint8Array(batch.finish(0).buffer).fill(0);
}

/** Bytes that an input takes in a batch. */
function sizeOf(input: RpcInput): number {
  let bytes = ITEM_BYTES;
  for (const value of Object.values(input)) if (value instanceof Uint8Array) bytes += value.length;
  return bytes;
}
