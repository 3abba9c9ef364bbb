import { InputBatch, readItems } from "../codec/batch.ts";
import type { CapsuleInput } from "../codec/capsule.ts";
import { type ModuleInput, type ModuleOutput, moduleInputCodec, moduleOutputCodec } from "../codec/client.ts";
import { codeNumber, MeshError } from "../codec/code.ts";
import type { Logger } from "../driver/log.ts";
import type { State } from "../driver/state.ts";
import { reasonOf } from "../guard.ts";
import { CapsuleModule } from "./module.ts";
import { type Ask, Shelf } from "./shelf.ts";

/** Bytes of items that are batched; a longer one comes alone. Larger batches save nothing and take memory several times. */
const MAX_BATCH: number = 1024 * 1024;
/** Bytes of items up to which batches share a buffer: one of its own takes longer than what is written into it. */
const MAX_KEPT_BATCH: number = 16 * 1024;
/** Longest input that the module takes, without what frames it. */
const MAX_INPUT: number = 16 * 1024 * 1024 - 64 * 1024;
/** What one item adds to its bytes, at most. */
const ITEM_BYTES = 64;
/** Traps within `TRAP_WINDOW_MS` after which the engine gives up: what traps again at once is not cured by a restart. */
const MAX_TRAPS = 3;
const TRAP_WINDOW_MS = 60_000;

/** The parts of an engine. */
export interface EngineParts {
  readonly module: WebAssembly.Module;
  readonly instance: CapsuleModule;
  readonly state: State;
  readonly logger: Logger;
  /** The time in milliseconds since 1970. */
  readonly now: () => number;
  /** Creates what the engine steps, and returns its handle. */
  readonly create: (instance: CapsuleModule) => number;
  /** Takes what the module asks for, the store's part excepted. Bytes are views. */
  readonly take: (output: Exclude<ModuleOutput, Ask>) => void;
  /** Hears of keys that were written. */
  readonly onPut: (key: Uint8Array) => void;
  /** What was under way is lost; after a trap another instance begins with what is stored. */
  readonly lost: (error: MeshError) => void;
}

/** Steps a replica or a client of capsule.wasm: collects inputs, serves the store and starts anew after a trap. */
export class Engine {
  readonly #parts: EngineParts;
  #instance: CapsuleModule | undefined;
  #handle = 0;
  #shelf: Shelf;
  #inputs: ModuleInput[] = [];
  readonly #batch: InputBatch<ModuleInput> = new InputBatch(moduleInputCodec, MAX_KEPT_BATCH);
  #flushing = false;
  #scheduled = false;
  #traps: number[] = [];
  #failure: MeshError | undefined;

  constructor(parts: EngineParts) {
    this.#parts = parts;
    this.#instance = parts.instance;
    this.#shelf = this.#start(parts.instance);
  }

  /** Why it takes nothing any more. */
  get failure(): MeshError | undefined {
    return this.#failure;
  }

  /** Size of the module's memory, in bytes. */
  get memoryBytes(): number {
    return this.#instance?.memoryBytes ?? 0;
  }

  /** Takes an input, which the module sees in this turn's batch; throws if it is too long. */
  push(input: ModuleInput): void {
    if (this.#failure !== undefined) return;
    if (sizeOf(input) > MAX_INPUT) {
      throw new MeshError("TooLarge", `at most ${MAX_INPUT} bytes are taken at a time: give them in parts`);
    }
    this.#inputs.push(input);
    this.schedule();
  }

  /** Steps the module once this turn has ended, even if there is no input. */
  schedule(): void {
    if (this.#flushing || this.#scheduled || this.#instance === undefined) return;
    // One step for all that arrives in the same turn.
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  /** Takes nothing any more: what is under way fails with this. */
  fail(error: MeshError): void {
    this.#failure = error;
    this.#inputs = [];
    this.#parts.lost(error);
  }

  /** Ends what it steps, which wipes its keys, and closes the store. */
  async close(error: MeshError): Promise<void> {
    this.fail(error);
    this.#shelf.stop();
    this.#instance?.destroy(this.#handle);
    this.#instance = undefined;
    // It holds contents of the last steps.
    new Uint8Array(this.#batch.finish(0).buffer).fill(0);
    await this.#parts.state.close();
  }

  #start(instance: CapsuleModule): Shelf {
    const { state, create, onPut } = this.#parts;
    this.#handle = create(instance);
    const isCurrent = (): boolean => this.#shelf === shelf;
    const shelf: Shelf = new Shelf({
      state,
      answer: (input) => {
        if (isCurrent()) this.push(input);
      },
      fail: (input, error) => {
        this.#report(error);
        if (!isCurrent()) return;
        // Before anything else, so that what is asked from then on takes it into account.
        this.#inputs.unshift(input);
        this.schedule();
      },
      log: (error) => this.#report(error),
      onPut,
    });
    return shelf;
  }

  #flush(): void {
    const instance = this.#instance;
    if (this.#flushing || instance === undefined) return;
    this.#flushing = true;
    try {
      do this.#step(instance);
      while (this.#inputs.length > 0 && this.#instance === instance);
    } catch (error) {
      this.#trap(error);
    } finally {
      this.#flushing = false;
    }
  }

  #step(instance: CapsuleModule): void {
    const { batch, isFailure } = this.#takeBatch();
    const outputs = instance.step(this.#handle, batch.finish(this.#parts.now()));
    if (isFailure) this.#shelf.told();
    for (const item of readItems(outputs)) {
      const output = moduleOutputCodec.decode(item);
      if (isAsk(output)) this.#shelf.ask(output);
      else {
        if (output.type === "Refused") this.#refused(output.code);
        this.#parts.take(output);
      }
    }
  }

  /** What fits one batch; a commit that failed is told alone. */
  #takeBatch(): { batch: InputBatch<ModuleInput>; isFailure: boolean } {
    let [count, bytes] = [0, 0];
    for (const input of this.#inputs) {
      const more = ITEM_BYTES + sizeOf(input);
      if (count > 0 && (isFailed(input) || bytes + more > MAX_BATCH)) break;
      count++;
      bytes += more;
      if (isFailed(input)) break;
    }
    const batch = bytes > MAX_KEPT_BATCH ? new InputBatch<ModuleInput>(moduleInputCodec, bytes) : this.#batch;
    batch.clear();
    const taken = this.#inputs.splice(0, count);
    for (const input of taken) batch.push(input);
    return { batch, isFailure: taken.some(isFailed) };
  }

  #refused(code: number): void {
    this.#parts.logger.log("error", "the module refused an input", code);
  }

  /** The instance is poisoned: what it was doing fails, and another one begins with what is stored. */
  #trap(cause: unknown): void {
    const now = performance.now();
    this.#traps = [...this.#traps.filter((at) => at > now - TRAP_WINDOW_MS), now];
    this.#report(cause);
    const text = "capsule.wasm failed and is started anew: ask again";
    const error = new MeshError("StoreFailed", text, { cause });
    this.#instance = undefined;
    this.#inputs = [];
    this.#shelf.stop();
    if (this.#traps.length >= MAX_TRAPS) return this.fail(error);
    this.#parts.lost(error);
    CapsuleModule.instantiate(this.#parts.module).then(
      (instance) => {
        if (this.#failure !== undefined) return;
        this.#shelf = this.#start(instance);
        this.#instance = instance;
        this.schedule();
      },
      (failure: unknown) => this.fail(new MeshError("BadConfig", String(failure))),
    );
  }

  #report(error: unknown): void {
    const code = error instanceof MeshError ? error.code : codeNumber("StoreFailed");
    this.#parts.logger.log("error", reasonOf(error), code);
  }
}

function isAsk(output: ModuleOutput): output is Ask {
  return output.type === "StoreGet" || output.type === "StoreScan" || output.type === "StoreCommit";
}

/** Whether it tells of a commit that failed. */
function isFailed(input: ModuleInput): boolean {
  return input.type === "StoreCommitted" && !input.ok;
}

/** Bytes of the fields of an input that have no fixed length. */
function sizeOf(input: ModuleInput | CapsuleInput): number {
  let bytes = 0;
  for (const value of Object.values(input)) if (value instanceof Uint8Array) bytes += value.length;
  return bytes;
}
