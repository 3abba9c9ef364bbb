import { toBase32 } from "../codec/base32.ts";
import { InputBatch, readItems } from "../codec/batch.ts";
import { type CapsuleInput, capsuleInputCodec, capsuleOutputCodec } from "../codec/capsule.ts";
import { codeNumber, MeshError } from "../codec/code.ts";
import { fromHex, toHex } from "../codec/hex.ts";
import { randomBytes } from "../driver/driver.ts";
import { Logger, type LogLevel, type LogSink } from "../driver/log.ts";
import { State } from "../driver/state.ts";
import { isPromise, type StoreFactory } from "../stores/store.ts";
import { CapsuleModule } from "./module.ts";
import { Shelf } from "./shelf.ts";

/** Most bytes of a request. */
export const MAX_REQUEST: number = 8 * 1024 * 1024;
/** Most bytes of requests under way: an isolate has 128 MB, which hold them more than once. */
const MAX_UNDER_WAY: number = 24 * 1024 * 1024;
/** Largest batch that the module takes, without what frames the items. */
const MAX_BATCH: number = 16 * 1024 * 1024 - 64 * 1024;
/** What one item adds to its bytes, at most. */
const ITEM_BYTES = 32;
/** Memory for what is stored and for mirrors of readers' caches: an isolate of 128 MB is shared with others. */
const CACHE: number = 16 * 1024 * 1024;
const MIRRORS: number = 8 * 1024 * 1024;
/** Traps within `TRAP_WINDOW_MS` after which the replica gives up: what traps again at once is not cured by a restart. */
const MAX_TRAPS = 3;
const TRAP_WINDOW_MS = 60_000;
const MAX_REQUEST_NUMBER = 0xffff_ffff;
/** Length of a capsule's name, with which each of its keys begins. */
const NAME_BYTES = 32;
/** Where a request holds the name of its capsule. */
const NAME_AT = 1;

/** How a replica is opened. */
export interface ReplicaOptions {
  /** Where capsules are kept: a store of their own, such as `sqlite("./capsules.db")`. */
  readonly storage: StoreFactory;
  /** Secret seed of the key that it signs with, 64 hex digits, in place of the one that the store keeps. */
  readonly seed?: string | undefined;
  /** Bytes of the store that are remembered; 16 MiB unless given. */
  readonly cache?: number | undefined;
  /** Bytes for mirrors of readers' verification caches; 8 MiB unless given. */
  readonly mirrors?: number | undefined;
  /** The time in milliseconds since 1970, which acknowledgements say; the platform's unless given. */
  readonly now?: (() => number) | undefined;
  /** Where log records go; the console unless given. */
  readonly log?: LogSink | undefined;
  /** The least level that is logged; `warn` unless given. */
  readonly logLevel?: LogLevel | undefined;
}

interface Pending {
  readonly bytes: number;
  readonly resolve: (response: Uint8Array<ArrayBuffer>) => void;
  readonly reject: (error: unknown) => void;
}

interface ReplicaParts {
  readonly module: WebAssembly.Module;
  readonly instance: CapsuleModule;
  readonly state: State;
  readonly seed: Uint8Array;
  readonly options: ReplicaOptions;
}

/** A server of capsules: stores what writers send it, proves it to readers and signs for what is durable. */
export class Replica {
  /** The public key that it signs with, 64 hex digits. */
  readonly key: string;
  readonly #parts: ReplicaParts;
  readonly #logger: Logger;
  readonly #pending: Map<number, Pending> = new Map();
  readonly #held: Set<string> = new Set();
  readonly #listeners: Set<(capsule: string) => void> = new Set();
  #instance: CapsuleModule | undefined;
  #handle = 0;
  #shelf: Shelf;
  #inputs: CapsuleInput[] = [];
  #flushing = false;
  #scheduled = false;
  #nextRequest = 1;
  #underWay = 0;
  #closing: Promise<void> | undefined;
  #traps: number[] = [];
  #failure: MeshError | undefined;

  private constructor(parts: ReplicaParts) {
    this.#parts = parts;
    this.#logger = new Logger(parts.options.log, parts.options.logLevel);
    this.key = toHex(parts.instance.deriveServer(parts.seed));
    this.#instance = parts.instance;
    this.#shelf = this.#start(parts.instance);
  }

  /** Opens the store and starts the module in it. */
  static async open(options: ReplicaOptions, module: WebAssembly.Module): Promise<Replica> {
    const given = options.seed === undefined ? undefined : fromHex(options.seed, 32, "seed");
    const instance = await CapsuleModule.instantiate(module);
    const opening = options.storage();
    const state = new State(isPromise(opening) ? await opening : opening);
    try {
      const seed = await state.open(given, randomBytes);
      state.separate(instance.deriveServer(seed));
      const replica = new Replica({ module, instance, state, seed, options });
      await replica.#list();
      return replica;
    } catch (error) {
      await state.close();
      throw error;
    }
  }

  /** Names of the capsules that are stored, in base32, in no order. */
  get capsules(): readonly string[] {
    return [...this.#held];
  }

  /** Hears of each capsule that is stored from now on, until the function that is returned is called. */
  onCapsule(listener: (capsule: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Size of the module's memory, in bytes. */
  get memoryBytes(): number {
    return this.#instance?.memoryBytes ?? 0;
  }

  /** Carries out a request as `docs/specification/capsules.md` has it and resolves with the response. */
  async request(message: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
    if (this.#failure !== undefined) throw this.#failure;
    if (message.length > MAX_REQUEST) {
      throw new MeshError("TooLarge", `a request to a replica has at most ${MAX_REQUEST} bytes`);
    }
    if (this.#underWay + message.length > MAX_UNDER_WAY) throw new MeshError("TooManyRequests");
    const request = this.#nextRequest;
    this.#nextRequest = request === MAX_REQUEST_NUMBER ? 1 : request + 1;
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
    this.#pending.set(request, { bytes: message.length, resolve, reject });
    this.#underWay += message.length;
    this.#push({ type: "Request", request, message });
    return promise;
  }

  /** Closes the replica and its store; requests in progress fail. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<void> {
    this.#fail(new MeshError("Cancelled", "the replica was closed"));
    this.#shelf.stop();
    this.#instance?.destroy(this.#handle);
    this.#instance = undefined;
    this.#parts.seed.fill(0);
    await this.#parts.state.close();
  }

  #start(instance: CapsuleModule): Shelf {
    const { seed, options, state } = this.#parts;
    const { cache = CACHE, mirrors = MIRRORS } = options;
    this.#handle = instance.createReplica({ seed, cache, mirrors });
    const isCurrent = (): boolean => this.#shelf === shelf;
    const shelf: Shelf = new Shelf({
      state,
      answer: (input) => {
        if (isCurrent()) this.#push(input);
      },
      fail: (input, error) => {
        this.#report(error);
        if (!isCurrent()) return;
        // Before anything else, so that what is asked from then on takes it into account.
        this.#inputs.unshift(input);
        this.#schedule();
      },
      log: (error) => this.#report(error),
      onPut: (key) => this.#hold(key),
    });
    return shelf;
  }

  /** Finds the names of all capsules, each with one look into the store. */
  async #list(): Promise<void> {
    const { state } = this.#parts;
    const end = new Uint8Array(NAME_BYTES + 1).fill(0xff);
    let start = new Uint8Array(NAME_BYTES);
    for (;;) {
      const [first] = await state.scan(start, end, 1);
      if (first === undefined) return;
      const key = state.strip(first[0]);
      this.#hold(key);
      // After the last key of this capsule: the byte after the name is a letter.
      start = Uint8Array.from([...key.subarray(0, NAME_BYTES), 0xff]);
    }
  }

  #hold(key: Uint8Array): void {
    const name = toBase32(key.subarray(0, NAME_BYTES));
    if (this.#held.has(name)) return;
    this.#held.add(name);
    for (const listener of this.#listeners) listener(name);
  }

  #push(input: CapsuleInput): void {
    if (this.#failure !== undefined) return;
    this.#inputs.push(input);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#flushing || this.#scheduled || this.#instance === undefined) return;
    // One step for all that arrives in the same turn.
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    const instance = this.#instance;
    if (this.#flushing || instance === undefined) return;
    this.#flushing = true;
    try {
      while (this.#inputs.length > 0 && this.#instance === instance) this.#step(instance);
    } catch (error) {
      this.#trap(error);
    } finally {
      this.#flushing = false;
    }
  }

  #step(instance: CapsuleModule): void {
    const { batch, isFailure } = this.#takeBatch();
    const outputs = instance.step(this.#handle, batch.finish((this.#parts.options.now ?? Date.now)()));
    if (isFailure) this.#shelf.told();
    for (const item of readItems(outputs)) {
      const output = capsuleOutputCodec.decode(item);
      if (output.type === "Respond") this.#answer(output.request, output.response);
      else if (output.type === "Refused")
        this.#logger.log("error", "the module refused an input", output.code);
      else this.#shelf.ask(output);
    }
  }

  /** What fits one batch; a commit that failed is told alone. */
  #takeBatch(): { batch: InputBatch<CapsuleInput>; isFailure: boolean } {
    const batch = new InputBatch<CapsuleInput>(capsuleInputCodec);
    let [count, bytes] = [0, 0];
    for (const input of this.#inputs) {
      const isFailure = input.type === "StoreCommitted" && !input.ok;
      bytes += ITEM_BYTES + sizeOf(input);
      if (count > 0 && (isFailure || bytes > MAX_BATCH)) break;
      batch.push(input);
      count++;
      if (!isFailure) continue;
      this.#inputs.shift();
      return { batch, isFailure };
    }
    this.#inputs = this.#inputs.slice(count);
    return { batch, isFailure: false };
  }

  #answer(request: number, response: Uint8Array): void {
    const pending = this.#pending.get(request);
    this.#pending.delete(request);
    this.#underWay -= pending?.bytes ?? 0;
    pending?.resolve(response.slice());
  }

  /** The instance is poisoned: what it was doing fails, and another one begins with what is stored. */
  #trap(cause: unknown): void {
    const now = Date.now();
    this.#traps = [...this.#traps.filter((at) => at > now - TRAP_WINDOW_MS), now];
    this.#report(cause);
    const error = new MeshError("StoreFailed", "capsule.wasm failed and is started anew: ask again", {
      cause,
    });
    this.#instance = undefined;
    this.#inputs = [];
    this.#shelf.stop();
    this.#rejectAll(error);
    if (this.#traps.length >= MAX_TRAPS) return this.#fail(error);
    CapsuleModule.instantiate(this.#parts.module).then(
      (instance) => {
        if (this.#failure !== undefined) return;
        this.#shelf = this.#start(instance);
        this.#instance = instance;
        this.#schedule();
      },
      (failure: unknown) => this.#fail(new MeshError("BadConfig", String(failure))),
    );
  }

  #fail(error: MeshError): void {
    this.#failure = error;
    this.#inputs = [];
    this.#rejectAll(error);
  }

  #rejectAll(error: MeshError): void {
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
    this.#underWay = 0;
  }

  #report(error: unknown): void {
    const code = error instanceof MeshError ? error.code : codeNumber("StoreFailed");
    this.#logger.log("error", error instanceof Error ? error.message : String(error), code);
  }
}

/** The name of the capsule that a request is about, in base32; nothing if it is too short to have one. */
export function capsuleOf(message: Uint8Array): string | undefined {
  const name = message.subarray(NAME_AT, NAME_AT + NAME_BYTES);
  return name.length === NAME_BYTES ? toBase32(name) : undefined;
}

function sizeOf(input: CapsuleInput): number {
  switch (input.type) {
    case "Request":
      return input.message.length;
    case "StoreValues":
      return input.values.length;
    case "StoreKeys":
      return input.keys.length;
    case "StoreCommitted":
      return 0;
    default:
      return input satisfies never;
  }
}
