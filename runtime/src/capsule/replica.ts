import { toBase32 } from "../codec/base32.ts";
import type { CapsuleOutput } from "../codec/capsule.ts";
import { MeshError } from "../codec/code.ts";
import { fromHex, toHex } from "../codec/hex.ts";
import { concat } from "../concat.ts";
import { within } from "../driver/deadline.ts";
import { Logger, type LogOptions } from "../driver/log.ts";
import { randomBytes } from "../driver/random.ts";
import { State } from "../driver/state.ts";
import { platformTimers, type Timers } from "../driver/timers.ts";
import { isPromise, type StoreFactory } from "../stores/store.ts";
import { exportCapsule, importCapsule } from "./archive.ts";
import { Engine, type EngineParts } from "./engine.ts";
import { CapsuleModule, type ExportInfo } from "./module.ts";
import { NAME_BYTES, nameOf } from "./name.ts";
import { answered, type Peer, Peers } from "./peers.ts";
import { errorAt } from "./record.ts";
import { createRequest, readResult } from "./request.ts";
import { MAX_REQUEST, type RequestPlace, Room } from "./room.ts";
import { sourceOf } from "./source.ts";
import { ARRIVAL_MS } from "./transfer.ts";

/** Memory for what is stored and for mirrors of readers' caches: an isolate of 128 MB is shared with others. */
const CACHE: number = 8 * 1024 * 1024;
const MIRRORS: number = 4 * 1024 * 1024;
const MAX_REQUEST_NUMBER = 0xffff_ffff;
/** How a synchronisation ended, as the module says. */
const AGREED = 0;
const REFUSED = 2;
const UNREACHABLE = 3;

/** How a replica is opened. */
export interface ReplicaOptions extends LogOptions {
  /** Where capsules are kept: a store of their own, such as `sqlite("./capsules.db")`. */
  readonly storage: StoreFactory;
  /** Secret seed of the key that it signs with, 64 hex digits, in place of the one that the store keeps. */
  readonly seed?: string | undefined;
  /**
   * Public keys, 64 hex digits each, of those whose capsules it holds, at most 32,768: nobody else can fill its store.
   * Everybody's unless given.
   */
  readonly owners?: readonly string[] | undefined;
  /** Bytes of the store that are remembered; 8 MiB unless given. */
  readonly cache?: number | undefined;
  /** Bytes for mirrors of readers' verification caches; 4 MiB unless given. */
  readonly mirrors?: number | undefined;
  /** The time in milliseconds since 1970, which acknowledgements say; the platform's unless given. */
  readonly now?: (() => number) | undefined;
}

interface Pending {
  readonly place: RequestPlace;
  readonly resolve: (response: Uint8Array<ArrayBuffer>) => void;
  readonly reject: (error: unknown) => void;
}

interface ReplicaParts {
  readonly module: WebAssembly.Module;
  readonly instance: CapsuleModule;
  readonly state: State;
  readonly seed: Uint8Array;
  readonly options: ReplicaOptions;
  readonly timers: Timers;
}

/** What came of a synchronisation. */
export interface Synchronised {
  /** Whether both hold the same now; if not, they do after another one, unless one refuses what the other has. */
  readonly agreed: boolean;
  /** How many records and signatures this replica has got. */
  readonly pulled: number;
  /** How many it has given. */
  readonly pushed: number;
}

interface Syncing {
  /** Lets go of the peer. */
  readonly release: () => void;
  readonly resolve: (synchronised: Synchronised) => void;
  readonly reject: (error: unknown) => void;
}

/** Those to whom a capsule is pushed. */
interface PushedTo {
  /** Their ids, one after the other. */
  readonly ids: Uint8Array;
  /** Lets go of them. */
  readonly release: () => void;
}

/** A server of capsules: stores what writers send it, proves it to readers and signs for what is durable. */
export class Replica {
  /** The public key that it signs with, 64 hex digits. */
  readonly key: string;
  /** Memory for its requests and places for its files, which all handlers of the replica share. */
  readonly room: Room = new Room();
  /** Timers of the host. */
  readonly timers: Timers;
  readonly #module: WebAssembly.Module;
  readonly #seed: Uint8Array;
  readonly #state: State;
  readonly #engine: Engine;
  readonly #pending: Map<number, Pending> = new Map();
  readonly #held: Set<string> = new Set();
  readonly #listeners: Set<(capsule: string) => void> = new Set();
  readonly #peers: Peers;
  readonly #syncing: Map<string, Syncing> = new Map();
  readonly #pushedTo: Map<string, PushedTo> = new Map();
  readonly #logger: Logger;
  readonly #closed: AbortController = new AbortController();
  #nextRequest = 1;
  #closing: Promise<void> | undefined;

  private constructor({ module, instance, state, seed, options, timers }: ReplicaParts) {
    const { cache = CACHE, mirrors = MIRRORS, now = Date.now } = options;
    const owners = concat((options.owners ?? []).map((owner) => fromHex(owner, 32, "owner")));
    this.key = toHex(instance.deriveKey(seed));
    this.timers = timers;
    this.#module = module;
    this.#seed = seed;
    this.#state = state;
    this.#peers = new Peers((tag, response) => this.#engine.push(answered(tag, response)));
    this.#logger = new Logger(options.log, options.logLevel);
    this.#engine = new Engine({
      module,
      instance,
      state,
      logger: this.#logger,
      now,
      create: (made) => made.createReplica({ seed, cache, mirrors, owners }),
      take: (output) => this.#take(output),
      onPut: (key) => this.#hold(key),
      lost: (error) => this.#lose(error),
    });
  }

  /** Opens the store and starts the module in it. */
  static async open(
    options: ReplicaOptions,
    module: WebAssembly.Module,
    timers: Timers = platformTimers,
  ): Promise<Replica> {
    const given = options.seed === undefined ? undefined : fromHex(options.seed, 32, "seed");
    const instance = await CapsuleModule.instantiate(module);
    const opening = options.storage();
    const state = new State(isPromise(opening) ? await opening : opening);
    try {
      const seed = await state.open(given, randomBytes);
      state.separate(instance.deriveKey(seed));
      const replica = new Replica({ module, instance, state, seed, options, timers });
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

  /** Aborts when the replica is closed. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** Size of the module's memory, in bytes. */
  get memoryBytes(): number {
    return this.#engine.memoryBytes;
  }

  /** Stores a capsule here by its signed metadata, unless it is stored, and resolves with its name in base32. */
  async hold(metadata: Uint8Array): Promise<string> {
    // An instance of its own: the replica's may be in the middle of something.
    const { name } = (await CapsuleModule.instantiate(this.#module)).verifyMetadata(metadata);
    readResult(await this.#ownRequest(createRequest(name, metadata)));
    return toBase32(name);
  }

  /** Writes the export file of a capsule, whose name is in base32, as it is now. Returns what the file holds. */
  async *exportFile(name: string): AsyncGenerator<Uint8Array<ArrayBuffer>, ExportInfo> {
    const module = await CapsuleModule.instantiate(this.#module);
    return yield* exportCapsule(module, name, (message) => this.#ownRequest(message));
  }

  /** Stores what is right in an export file, as it comes; resolves with what it holds. */
  async importFile(
    file: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    source?: string,
  ): Promise<ExportInfo> {
    const module = await CapsuleModule.instantiate(this.#module);
    return importCapsule(module, file, (message) => this.request(message, source));
  }

  /**
   * Carries out a request as `docs/specification/capsules.md` has it and resolves with the response. `source` is the peer id or the
   * address that it comes from, if it comes from elsewhere: what nobody has signed of one source crowds out no other's. A request waits
   * while the others of its source take up its share of `room`, unless it has a `place` there already.
   */
  async request(
    message: Uint8Array,
    source?: string,
    place?: RequestPlace,
  ): Promise<Uint8Array<ArrayBuffer>> {
    if (this.#engine.failure !== undefined) throw this.#engine.failure;
    const { length } = message;
    if (length > MAX_REQUEST) {
      throw new MeshError("TooLarge", `a request to a replica has at most ${MAX_REQUEST} bytes`);
    }
    if (place !== undefined) return this.#carryOut(message, source, place);
    const own = this.room.reserve(source, length) ?? (await this.#waitForShare(source, length));
    return this.#carryOut(message, source, taken(own, length));
  }

  /**
   * Lets this replica and another one of a capsule, whose name is in base32, come to hold the same; creates the capsule where
   * it is missing.
   */
  async synchronise(capsule: string, peer: Peer): Promise<Synchronised> {
    if (this.#engine.failure !== undefined) throw this.#engine.failure;
    const name = nameOf(capsule);
    const key = capsule + toHex(peer.id);
    if (this.#syncing.has(key)) {
      throw new MeshError("TooManyRequests", "a synchronisation with this replica is under way");
    }
    const release = this.#peers.add(peer);
    const { promise, resolve, reject } = Promise.withResolvers<Synchronised>();
    this.#syncing.set(key, { release, resolve, reject });
    this.#engine.push({ type: "Sync", peer: peer.id, capsule: name, entropy: randomBytes(32) });
    return promise;
  }

  /** Says which other replicas of a capsule there are: what writers store here from now on is pushed to them. */
  pushTo(capsule: string, peers: readonly Peer[]): void {
    const name = nameOf(capsule);
    const before = this.#pushedTo.get(capsule);
    const held = peers.map((peer) => this.#peers.add(peer));
    const release = (): void => {
      for (const letGo of held) letGo();
    };
    const ids = concat(peers.map(({ id }) => id));
    this.#pushedTo.set(capsule, { ids, release });
    this.#engine.push({ type: "Replicas", capsule: name, peers: ids });
    before?.release();
  }

  /** Closes the replica and its store; requests in progress fail. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  /** Carries out a request of its own, which waits for no stranger's. */
  async #ownRequest(message: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
    const place = taken(this.room.own(), message.length);
    try {
      return await this.request(message, undefined, place);
    } finally {
      place.release();
    }
  }

  #waitForShare(source: string | undefined, bytes: number): Promise<RequestPlace> {
    const late = (): MeshError => new MeshError("TooManyRequests");
    const deadline = { timeout_ms: ARRIVAL_MS, late, timers: this.timers };
    return within(deadline, (signal) => this.room.wait(source, bytes, signal));
  }

  #carryOut(
    message: Uint8Array,
    source: string | undefined,
    place: RequestPlace,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const { failure } = this.#engine;
    if (failure !== undefined) {
      place.release();
      throw failure;
    }
    const request = this.#nextRequest;
    this.#nextRequest = request === MAX_REQUEST_NUMBER ? 1 : request + 1;
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
    this.#pending.set(request, { place, resolve, reject });
    this.#engine.push({ type: "Request", request, source: sourceOf(source), message });
    return promise;
  }

  async #end(): Promise<void> {
    this.#closed.abort(new MeshError("Cancelled", "the replica was closed"));
    this.room.close(new MeshError("Cancelled", "the replica was closed"));
    const closed = this.#engine.close(new MeshError("Cancelled", "the replica was closed"));
    this.#seed.fill(0);
    await closed;
  }

  #take(output: Parameters<EngineParts["take"]>[0]): void {
    if (output.type === "Respond") this.#answer(output.request, output.response);
    else if (output.type === "Ask") this.#peers.ask(output);
    else if (output.type === "Synced") this.#endSync(output);
  }

  /** Finds the names of all capsules, each with one look into the store. */
  async #list(): Promise<void> {
    const state = this.#state;
    const end = new Uint8Array(NAME_BYTES + 1).fill(0xff);
    let start = new Uint8Array(NAME_BYTES);
    for (;;) {
      const [key] = await state.keys(start, end, 1);
      if (key === undefined) return;
      this.#hold(key);
      // After the last key of this capsule: the byte after the name is a letter.
      start = Uint8Array.from([...key.subarray(0, NAME_BYTES), 0xff]);
    }
  }

  #hold(key: Uint8Array): void {
    const name = toBase32(key.subarray(0, NAME_BYTES));
    if (this.#held.has(name)) return;
    this.#held.add(name);
    for (const listener of this.#listeners) {
      try {
        listener(name);
      } catch (error) {
        // What the application does with it is no reason to stop.
        this.#logger.log("error", `a listener failed: ${error instanceof Error ? error.message : error}`, 0);
      }
    }
  }

  #answer(request: number, response: Uint8Array): void {
    const pending = this.#pending.get(request);
    this.#pending.delete(request);
    pending?.place.release();
    pending?.resolve(response.slice());
  }

  #endSync(output: Extract<CapsuleOutput, { type: "Synced" }>): void {
    const { pulled, pushed, outcome, code, at } = output;
    const key = toBase32(output.capsule) + toHex(output.peer);
    const syncing = this.#syncing.get(key);
    this.#syncing.delete(key);
    syncing?.release();
    if (outcome === REFUSED) {
      syncing?.reject(errorAt(code, at));
    } else if (outcome === UNREACHABLE) {
      syncing?.reject(new MeshError("Disconnected", "the other replica does not answer"));
    } else syncing?.resolve({ agreed: outcome === AGREED, pulled, pushed });
  }

  /** What the module was doing is lost; another instance is told whom to push to. */
  #lose(error: MeshError): void {
    for (const { reject } of [...this.#pending.values(), ...this.#syncing.values()]) reject(error);
    for (const { place } of this.#pending.values()) place.release();
    for (const { release } of this.#syncing.values()) release();
    this.#pending.clear();
    this.#syncing.clear();
    this.#peers.forget();
    for (const [capsule, { ids }] of this.#pushedTo) {
      this.#engine.push({ type: "Replicas", capsule: nameOf(capsule), peers: ids });
    }
  }
}

/** Counts a whole message in its place. */
function taken(place: RequestPlace, bytes: number): RequestPlace {
  try {
    place.take(bytes);
    return place;
  } catch (error) {
    place.release();
    throw error;
  }
}
