import { MeshError } from "../codec/code.ts";
import { fromBase64Url, fromHex, toHex } from "../codec/hex.ts";
import {
  type CoreStatus,
  decodeFoundNode,
  decodeProviders,
  decodeStatus,
  type FoundNode,
  type Provider,
} from "../codec/reply.ts";
import { isPromise, type StoreFactory } from "../stores/store.ts";
import { call } from "./call.ts";
import { Core, type Identity } from "./core.ts";
import { Driver, randomBytes, type WakeTimer } from "./driver.ts";
import type { MeshEvent } from "./event.ts";
import { Logger } from "./log.ts";
import { type CheckedOptions, checkName, checkOptions, type NodeOptions, nameOfUrl } from "./options.ts";
import type { Dialler, PathHost } from "./paths.ts";
import { type CallContext, type Handler, serveStream } from "./serve.ts";
import { State } from "./state.ts";
import type { MeshStream } from "./streams.ts";

/** A bootstrap is tried again after this pause, which doubles up to the longest. */
const FIRST_RETRY_MS = 250;
const LONGEST_RETRY_MS = 30_000;
/** How long `join` tries unless told otherwise. */
const JOIN_TIMEOUT_MS = 15_000;
/** How long leaving may take when a mesh is disposed of: neighbours that do not answer by then find out themselves. */
const LEAVE_TIMEOUT_MS = 5_000;
/** A node that grants itself its names, for development, does so for 30 days and renews in the last ten. */
const SELF_GRANT_MS: number = 30 * 24 * 3_600_000;
const SELF_GRANT_RENEW_MS: number = 10 * 24 * 3_600_000;
/** Siblings of a name beside the first, so that the loss of one responsible node and its successors is survived. */
const DEFAULT_REPLICAS = 1;
const MAX_REPLICAS = 3;
/** Weights travel in ten-thousandths. */
const WHOLE = 10_000;

/** What a platform gives a node. */
export interface Platform {
  /** The compiled core. */
  readonly module: () => WebAssembly.Module | Promise<WebAssembly.Module>;
  /** Opens paths. */
  readonly dialler: Dialler;
  /** How long a node may sleep unless configured otherwise. */
  readonly idle_ms: number;
  /** Wakes the driver. */
  readonly timer: (wake: () => void) => WakeTimer;
  /** What handlers are told of the platform. */
  readonly context: Pick<CallContext, "env" | "waitUntil">;
}

/** Whose name is meant. */
export interface NameOptions {
  /** The name belongs to nobody: whoever publishes it is believed. */
  readonly unowned?: boolean | undefined;
  /** Public key of the name's owner, in place of the configured one. */
  readonly owner?: string | undefined;
}

/** How a request finds its provider. */
export interface CallOptions extends NameOptions {
  /** Id of the one peer that is to answer, in place of any provider. */
  readonly peer?: string | undefined;
}

/** The usual options of `fetch`, and how the request finds its provider. */
export interface FetchInit extends RequestInit, CallOptions {}

/** How a name is published. */
export interface PublishOptions {
  /** The owner's grant, as base64url. */
  readonly grant?: string | undefined;
  /** The name belongs to nobody: callers must ask for it so. */
  readonly unowned?: boolean | undefined;
  /** Version that is served; callers may be split by it. */
  readonly version?: string | undefined;
  /**
   * Share of the requests that this version gets, 0 to 1; the versions of 1, which is what a provider has unless given, share
   * what the others leave. The providers of one version should state the same.
   */
  readonly weight?: number | undefined;
  /** How many siblings of the name's object are stored beside the first; 1 unless given. */
  readonly replicas?: number | undefined;
}

/** A name, who answers to it, and how it is published. */
export interface Service {
  /** The name. */
  readonly name: string;
  /** Answers its requests. */
  readonly handler: Handler;
  /** How it is published. */
  readonly options?: PublishOptions;
}

/** What `status()` tells. */
export interface MeshStatus extends CoreStatus {
  /** Random for each start of the node: another one means that its memory was lost in between. */
  readonly bootId: string;
  /** Open paths. */
  readonly paths: number;
}

/** What `Mesh.open` makes a node of. */
export interface MeshParts {
  readonly options: NodeOptions;
  readonly checked: CheckedOptions;
  readonly state: State;
  readonly tools: Core;
  readonly seed: Uint8Array;
  readonly identity: Identity;
  readonly module: WebAssembly.Module;
  readonly platform: Platform;
}

/** A node of a mesh. `join` makes one. */
export class Mesh implements AsyncDisposable {
  /** This node's peer id, 64 hex digits. */
  readonly id: string;
  /** Random for each start. */
  readonly bootId: string = toHex(randomBytes(8));
  /** Its public key as an owner of names when it has an `ownerSeed`, else `undefined`. */
  readonly ownerKey: string | undefined;
  readonly #options: CheckedOptions;
  readonly #state: State;
  readonly #tools: Core;
  readonly #logger: Logger;
  readonly #driver: Driver;
  readonly #context: Platform["context"];
  readonly #handlers: Map<string, Handler> = new Map();
  readonly #published: Map<string, PublishOptions> = new Map();
  readonly #listeners: Set<(event: MeshEvent) => void> = new Set();
  #isJoined = false;
  #closing: Promise<void> | undefined;

  /** For `open` alone: the parts of a node must fit each other. */
  constructor(parts: MeshParts) {
    const { options, checked, state, tools, platform } = parts;
    this.id = toHex(parts.identity.id);
    this.#options = checked;
    this.#state = state;
    this.#tools = tools;
    this.#context = platform.context;
    this.#logger = new Logger(options.log, options.logLevel);
    if (options.onEvent !== undefined) this.#listeners.add(options.onEvent);
    const { ownerSeed } = checked;
    this.ownerKey = ownerSeed && toHex(tools.deriveOwner(ownerSeed, checked.network));
    this.#driver = new Driver({
      module: parts.module,
      state,
      dialler: platform.dialler,
      timer: platform.timer,
      logger: this.#logger,
      config: {
        seed: parts.seed,
        knownKey: parts.identity.knownKey,
        network: checked.network,
        role: checked.addresses.length > 0 ? "member" : "leaf",
        addresses: checked.addresses,
        bootstraps: checked.bootstraps,
        dials: platform.dialler.schemes,
        allowPrivate: checked.allowPrivate,
        trustOnFirstUse: checked.trustOnFirstUse,
        idle_ms: checked.idle_ms ?? platform.idle_ms,
        domain: checked.domain,
      },
      onEvent: (event) => this.#emit(event),
      onStream: (stream) => this.#serve(stream),
      onRestart: () => void this.#restore(),
    });
  }

  /**
   * Opens the store and starts the core; `more` are the platform's own options, `prepare` gets the node before its core
   * starts. Use `join` instead.
   */
  static async open<T extends Mesh>(
    this: new (
      parts: MeshParts,
    ) => T,
    options: NodeOptions,
    storage: StoreFactory,
    platform: Platform,
    more: readonly string[],
    prepare?: (mesh: T) => void,
  ): Promise<T> {
    const checked = checkOptions(options, more);
    if (typeof storage !== "function") {
      throw new MeshError(
        "BadConfig",
        "storage says where the node keeps its identity: give one, or memory()",
      );
    }
    const module = await platform.module();
    const tools = await Core.instantiate(module);
    const opening = storage();
    const store = isPromise(opening) ? await opening : opening;
    const state = new State(store);
    try {
      const seed = await state.open(checked.seed, randomBytes);
      const identity = await state.identify(seed, checked.network, tools);
      state.separate(identity.id);
      const mesh = new this({ options, checked, state, tools, seed, identity, module, platform });
      prepare?.(mesh);
      await mesh.#driver.start();
      return mesh;
    } catch (error) {
      await state.close();
      throw error;
    }
  }

  /** Where transports bring their paths. */
  get paths(): PathHost {
    return this.#driver;
  }

  /** Streams and commands in progress. */
  get workCount(): number {
    return this.#driver.workCount;
  }

  /** Whether the node is in the ring. */
  get isJoined(): boolean {
    return this.#isJoined;
  }

  /** Steps the core now. */
  flush(): void {
    this.#driver.flush();
  }

  /** Joins the ring, trying for so long while no bootstrap answers. */
  async join(timeout_ms: number = JOIN_TIMEOUT_MS): Promise<void> {
    const deadline = Date.now() + timeout_ms;
    for (let pause_ms = FIRST_RETRY_MS; ; pause_ms = Math.min(pause_ms * 2, LONGEST_RETRY_MS)) {
      try {
        await this.#driver.command((tag) => ({ type: "Join", tag }));
        this.#isJoined = true;
        return;
      } catch (error) {
        const mayRetry = error instanceof MeshError && error.class === "Unreachable";
        if (!mayRetry || this.#closing !== undefined || Date.now() + pause_ms > deadline) throw error;
        this.#logger.log("info", `joining failed and is tried again: ${error.message}`, error.code);
      }
      await new Promise((resolve) => setTimeout(resolve, pause_ms));
    }
  }

  /** Answers the requests to a name and publishes it. */
  async serve(name: string, handler: Handler, options: PublishOptions = {}): Promise<void> {
    const { published } = await this.announce([{ name, handler, options }]);
    await published;
  }

  /** Publishes this node as a provider of a name. */
  async publish(name: string, options: PublishOptions = {}): Promise<void> {
    const grant = await this.#grantOf(checkName(name), options);
    await this.#publishGranted(name, options, grant);
  }

  /**
   * Serves several names. Resolves when the core takes calls to them, which it does before they are published; the
   * promise in the result resolves when they are.
   */
  async announce(services: readonly Service[]): Promise<{ published: Promise<void> }> {
    const granted = await Promise.all(
      services.map(async ({ name, handler, options = {} }) => {
        if (typeof handler !== "function") throw new MeshError("BadConfig", "a handler is a function");
        return { name, handler, options, grant: await this.#grantOf(checkName(name), options) };
      }),
    );
    const commands = granted.map(async ({ name, handler, options, grant }) => {
      const before = this.#handlers.get(name);
      this.#handlers.set(name, handler);
      try {
        await this.#publishGranted(name, options, grant);
      } catch (error) {
        if (before === undefined) this.#handlers.delete(name);
        else this.#handlers.set(name, before);
        throw error;
      }
    });
    const published = Promise.all(commands).then(() => undefined);
    // Whoever waits hears of a failure; nobody may be waiting.
    published.catch(() => undefined);
    return { published };
  }

  /** Stops publishing and serving a name. */
  async withdraw(name: string): Promise<void> {
    const options = this.#published.get(checkName(name)) ?? {};
    const grant = await this.#grantOf(name, options);
    const { network } = this.#options;
    const owner = grant.length === 0 ? grant : this.#tools.verifyGrant(grant, network, 0).owner;
    await this.#driver.command((tag) => ({ type: "Withdraw", tag, owner, name }));
    this.#published.delete(name);
    this.#handlers.delete(name);
  }

  /** Sends a request to `https://NAME.mesh/path` and resolves with the answer, like `fetch`. */
  async fetch(input: Request | string | URL, init: FetchInit = {}): Promise<Response> {
    const url = new URL(input instanceof Request ? input.url : input);
    return this.#call(nameOfUrl(url), input, init);
  }

  /** A service by its name, shaped like a service binding: `service("check").fetch("/x")`. */
  service(name: string, options: CallOptions = {}): { fetch: Mesh["fetch"] } {
    const base = `https://${checkName(name)}.mesh/`;
    return {
      fetch: (input, init = {}) => {
        const target = input instanceof Request ? input : new URL(input, base);
        return this.#call(name, target, { ...options, ...init });
      },
    };
  }

  /** Finds who serves a name. */
  async find(name: string, options: NameOptions = {}): Promise<Provider[]> {
    const owner = this.#ownerOf(checkName(name), options);
    return decodeProviders(await this.#driver.command((tag) => ({ type: "Find", tag, owner, name })));
  }

  /** Finds the node responsible for an id of 64 hex digits. */
  async findNode(id: string): Promise<FoundNode> {
    const bytes = fromHex(id, 32, "an id");
    return decodeFoundNode(await this.#driver.command((tag) => ({ type: "FindNode", tag, id: bytes })));
  }

  /** What this node knows of itself and the ring. */
  async status(): Promise<MeshStatus> {
    const status = decodeStatus(await this.#driver.command((tag) => ({ type: "Status", tag })));
    return { ...status, bootId: this.bootId, paths: this.#driver.pathCount };
  }

  /** Hears of everything that happens, until the function that is returned is called. */
  onEvent(listener: (event: MeshEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Hands over what this node is responsible for, leaves the ring and closes the node. */
  async leave(): Promise<void> {
    await this.#driver.command((tag) => ({ type: "Leave", tag }));
    this.#isJoined = false;
    await this.close();
  }

  /** Closes the node without leaving: it may come back with the same identity. */
  close(): Promise<void> {
    this.#closing ??= Promise.resolve().then(() => {
      this.#driver.close();
      return this.#state.close();
    });
    return this.#closing;
  }

  /** Leaves if that works within five seconds, and closes the node in any case. */
  async [Symbol.asyncDispose](): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, LEAVE_TIMEOUT_MS);
    });
    if (this.#closing === undefined && this.#isJoined) {
      await Promise.race([this.leave().catch(() => undefined), timeout]);
    }
    if (timer !== undefined) clearTimeout(timer);
    await this.close();
  }

  async #call(name: string, input: Request | URL | string, init: FetchInit): Promise<Response> {
    const { unowned, owner, peer, ...rest } = init;
    const isStream = rest.body instanceof ReadableStream;
    const request = new Request(input, (isStream ? { duplex: "half", ...rest } : rest) as RequestInit);
    const target = {
      name,
      owner: this.#ownerOf(name, { unowned, owner }),
      peer: peer === undefined ? undefined : fromHex(peer, 32, "peer"),
    };
    return call(this.#driver, target, request);
  }

  async #publishGranted(name: string, options: PublishOptions, grant: Uint8Array): Promise<void> {
    const { replicas = DEFAULT_REPLICAS, weight = 1, version = "" } = options;
    checkInteger("replicas", replicas, MAX_REPLICAS);
    if (!(weight >= 0 && weight <= 1)) throw new MeshError("BadConfig", "weight is a number from 0 to 1");
    const before = this.#published.get(name);
    this.#published.set(name, options);
    try {
      await this.#driver.command((tag) => ({
        type: "Publish",
        tag,
        grant,
        name,
        replicas,
        version,
        weight: Math.round(weight * WHOLE),
      }));
    } catch (error) {
      if (before === undefined) this.#published.delete(name);
      else this.#published.set(name, before);
      throw error;
    }
  }

  #serve(stream: MeshStream): void {
    const handler = this.#handlers.get(stream.service);
    if (handler === undefined) return stream.reset(new MeshError("NoService").code);
    void serveStream(stream, handler, this.#context, this.#logger);
  }

  /** The owner's key of a name; empty for an unowned one, which must be asked for. */
  #ownerOf(name: string, { unowned, owner }: NameOptions): Uint8Array {
    if (unowned === true) return new Uint8Array();
    if (owner !== undefined) return fromHex(owner, 32, "owner");
    const configured = this.#options.owner;
    const key = configured instanceof Uint8Array ? configured : configured?.get(name);
    if (key !== undefined) return key;
    if (this.ownerKey !== undefined) return fromHex(this.ownerKey, 32, "owner");
    throw new MeshError(
      "BadConfig",
      `no owner is configured for ${name}: set owner, or ask for unowned: true`,
    );
  }

  async #grantOf(name: string, { grant, unowned }: PublishOptions): Promise<Uint8Array> {
    if (unowned === true) return new Uint8Array();
    if (grant !== undefined) return fromBase64Url(grant, "a grant");
    const { ownerSeed, network } = this.#options;
    if (ownerSeed === undefined) {
      throw new MeshError(
        "BadConfig",
        `${name} needs its owner's grant: give grant, or publish it with unowned: true`,
      );
    }
    // A grant that is kept does not change what is published, and so costs nothing when a node wakes.
    const key = `grant:${name}:${this.ownerKey}:${network}`;
    const kept = await this.#state.own(key);
    if (kept !== undefined && this.#isFresh(kept)) return kept;
    const peer = fromHex(this.id, 32, "a peer id");
    const made = this.#tools.deriveGrant(ownerSeed, network, {
      name,
      peer,
      expires_ms: Date.now() + SELF_GRANT_MS,
    });
    await this.#state.setOwn({ [key]: made });
    return made;
  }

  #isFresh(grant: Uint8Array): boolean {
    try {
      const { expires_ms, peer } = this.#tools.verifyGrant(grant, this.#options.network, Date.now());
      return toHex(peer) === this.id && expires_ms - Date.now() > SELF_GRANT_RENEW_MS;
    } catch {
      return false;
    }
  }

  #emit(event: MeshEvent): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (error) {
        this.#logger.log("error", `an event listener failed: ${error}`);
      }
    }
  }

  /** After the core was started again: joins and publishes what was. */
  async #restore(): Promise<void> {
    if (!this.#isJoined) return;
    try {
      const names = [...this.#published].map(([name, options]) => this.publish(name, options));
      const published = Promise.all(names);
      published.catch(() => undefined);
      await this.join(Number.POSITIVE_INFINITY);
      await published;
    } catch (error) {
      this.#logger.log(
        "error",
        `the node could not rejoin: ${error instanceof Error ? error.message : error}`,
      );
    }
  }
}

function checkInteger(name: string, value: number, most: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= most) return;
  throw new MeshError("BadConfig", `${name} is a whole number from 0 to ${most}`);
}
