import { MeshError } from "../codec/code.ts";
import { fromHex, toHex } from "../codec/hex.ts";
import {
  decodeFoundNode,
  decodeProviders,
  decodeStatus,
  type FoundNode,
  type Provider,
} from "../codec/reply.ts";
import { detach } from "../guard.ts";
import { isPromise, type StoreFactory } from "../stores/store.ts";
import type { MeshSocket } from "../websocket/socket.ts";
import type { Membership } from "./admission.ts";
import { Admitted, admissionOf, admit } from "./admitted.ts";
import { Caller, type WebSocketInit } from "./caller.ts";
import { Core, type Identity } from "./core.ts";
import { Driver } from "./driver.ts";
import type { MeshEvent } from "./event.ts";
import { Logger } from "./log.ts";
import { Names, type Prepared } from "./names.ts";
import type { ObservedNode, Observer } from "./observe.ts";
import {
  type CheckedOptions,
  checkName,
  checkOptions,
  type NodeOptions,
  nameOfUrl,
  roleOf,
  urlOfSocket,
} from "./options.ts";
import type { PathHost } from "./paths.ts";
import type { Platform } from "./platform.ts";
import { randomBytes } from "./random.ts";
import { mayRejoin } from "./rejoin.ts";
import type { Routing } from "./routed.ts";
import { Endpoint, type Handler } from "./serve.ts";
import {
  type CallOptions,
  checkAllow,
  checkLimit,
  type FetchInit,
  type GrantOptions,
  type NameOptions,
  type PublishOptions,
  type ServeOptions,
  type Service,
} from "./service.ts";
import { type CloseOptions, checkDrain, Serving } from "./serving.ts";
import type { Shortcut } from "./shortcut.ts";
import { State } from "./state.ts";
import type { MeshStatus, ServiceHealth } from "./status.ts";
import type { MeshStream } from "./streams.ts";
import { urlOfService } from "./target.ts";
import type { Timers } from "./timers.ts";
import { Latest, type WatchOptions } from "./watch.ts";

/** A bootstrap is tried again after this pause, which doubles up to the longest. */
const FIRST_RETRY_MS = 250;
const LONGEST_RETRY_MS = 30_000;
/** How long `join` tries unless told otherwise. */
const JOIN_TIMEOUT_MS = 15_000;
/** How long a node that leaves goes on to answer the requests that it has. */
const DRAIN_MS = 5_000;
/** How long leaving may take when a mesh is disposed of: neighbours that do not answer by then find out themselves. */
const LEAVE_TIMEOUT_MS = 5_000;
/** Longer than the core lets calls of a withdrawn name in, which is as long as callers use the providers that they know. */
const LINGER_MS = 60_000;

/** A service that is ready to be published. */
interface Announced {
  readonly endpoint: Endpoint;
  readonly prepared: Prepared;
}

/** What `Mesh.open` makes a node of. */
export interface MeshParts {
  readonly options: NodeOptions;
  readonly checked: CheckedOptions;
  readonly state: State;
  readonly tools: Core;
  readonly seed: Uint8Array;
  readonly identity: Identity;
  readonly membership: Membership | undefined;
  readonly logger: Logger;
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
  /** Whether private addresses may be dialled. */
  readonly allowPrivate: boolean;
  /** Timers of the host, for what runs beside the node. */
  readonly timers: Timers;
  readonly #state: State;
  readonly #logger: Logger;
  readonly #driver: Driver;
  readonly #names: Names;
  readonly #context: Platform["context"];
  readonly #observer: Observer | undefined;
  readonly #endpoints: Map<string, Endpoint> = new Map();
  /** Names that were withdrawn, and until when on the monotonic clock they are answered to. */
  readonly #withdrawn: Map<string, number> = new Map();
  readonly #caller: Caller;
  readonly #serving: Serving = new Serving();
  readonly #admitted: Admitted;
  readonly #listeners: Set<(event: MeshEvent) => void> = new Set();
  #isJoined = false;
  #closing: Promise<void> | undefined;

  /** For `open` alone: the parts of a node must fit each other. */
  constructor(parts: MeshParts) {
    const { options, checked, state, tools, membership, platform } = parts;
    this.id = toHex(parts.identity.id);
    this.allowPrivate = checked.allowPrivate;
    this.timers = platform.timers;
    this.#state = state;
    this.#context = platform.context;
    this.#logger = parts.logger;
    if (options.onEvent !== undefined) this.#listeners.add(options.onEvent);
    const ownerKey = checked.ownerSeed && tools.deriveOwner(checked.ownerSeed, checked.network);
    this.ownerKey = ownerKey && toHex(ownerKey);
    this.#driver = new Driver({
      module: parts.module,
      state,
      dialler: platform.dialler,
      timers: platform.timers,
      timer: (wake) =>
        platform.timer(() => {
          wake();
          this.#tend();
        }),
      logger: this.#logger,
      config: {
        seed: parts.seed,
        knownKey: parts.identity.knownKey,
        network: checked.networkName,
        role: roleOf(checked),
        addresses: checked.addresses,
        bootstraps: checked.bootstraps,
        dials: platform.dialler.schemes,
        allowPrivate: checked.allowPrivate,
        trustOnFirstUse: checked.trustOnFirstUse,
        admission: admissionOf(checked, membership),
        takeOver: checked.takeOver,
        idle_ms: checked.idle_ms ?? platform.idle_ms,
        domain: checked.domain,
      },
      confirm: membership?.confirm,
      onEvent: (event) => {
        this.#emit(event);
        if (event.type === "ended") detach("closing", this.close());
      },
      onStream: (stream) => this.#serve(stream),
      onRestart: () => detach("joining again", this.#restore()),
    });
    const { id } = parts.identity;
    const driver = this.#driver;
    this.#admitted = new Admitted(membership, driver, this.#logger);
    this.#names = new Names({ driver, tools, state, logger: this.#logger, options: checked, id, ownerKey });
    this.#observer = options.telemetry;
    this.#caller = new Caller({ driver, names: this.#names, observer: this.#observer });
    this.#observer?.follow(this.#observed(checked));
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
    const module = await (checked.closed === undefined ? platform.module() : checked.closed.method.core());
    const tools = await Core.instantiate(module);
    const opening = storage();
    const store = isPromise(opening) ? await opening : opening;
    const state = new State(store);
    try {
      const seed = await state.open(checked.seed, randomBytes);
      const identified = await state.identify(seed, checked.network, tools);
      const logger = new Logger(options.log, options.logLevel);
      const membership = await admit(checked, identified, state, logger);
      const identity = { ...identified, ...(membership && { id: membership.id }) };
      state.separate(identity.id);
      const parts = { options, checked, state, tools, seed, identity, membership, logger, module, platform };
      const mesh = new this(parts);
      prepare?.(mesh);
      await mesh.#driver.start();
      await mesh.#admitted.begin();
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

  /** Does what is due: steps the core, renews grants. */
  flush(): void {
    this.#driver.flush();
    this.#tend();
  }

  /** Joins the ring, trying for so long while no bootstrap answers. */
  async join(timeout_ms: number = JOIN_TIMEOUT_MS): Promise<void> {
    const deadline = performance.now() + timeout_ms;
    let reason: unknown;
    for (let pause_ms = FIRST_RETRY_MS; ; pause_ms = Math.min(pause_ms * 2, LONGEST_RETRY_MS)) {
      try {
        await this.#driver.command((tag) => ({ type: "Join", tag }));
        this.#isJoined = true;
        return;
      } catch (error) {
        if (!(error instanceof MeshError)) throw error;
        // That the core is about to join by itself says less than why it has to.
        if (error.name !== "TooManyRequests") reason = error;
        this.#admitted.refused(error);
        if (!mayRejoin(error) || this.#closing !== undefined || performance.now() + pause_ms > deadline) {
          throw reason ?? error;
        }
        // The first failure is told: an option that is wrong never lets this node in.
        const level = pause_ms === FIRST_RETRY_MS ? "warn" : "info";
        this.#logger.log(level, `joining failed and is tried again: ${error.message}`, error.code);
      }
      await new Promise((resolve) => setTimeout(resolve, pause_ms));
    }
  }

  /** Answers the requests to a name and publishes it. */
  async serve(name: string, handler: Handler, options: ServeOptions = {}): Promise<void> {
    await this.#begin(await this.#prepare({ name, handler, options }), false);
  }

  /**
   * Publishes this node as a provider of a name. For a name that it publishes already what is not given stays as it is, so
   * that a grant can be renewed, or a version's weight changed, while the service runs.
   */
  async publish(name: string, options: PublishOptions = {}): Promise<void> {
    await this.#names.publish(await this.#names.amend(checkName(name), options));
  }

  /**
   * Serves several names. Resolves when the core takes calls to them, which it does before they are published; the
   * promise in the result resolves when they are, and rejects when that takes long: this node goes on trying. With `refused`, a name that cannot be published, for want of a grant, is
   * told to it and left out.
   */
  async announce(
    services: readonly Service[],
    refused?: (name: string, error: unknown) => void,
  ): Promise<{ published: Promise<void> }> {
    const prepared = await Promise.all(
      services.map(async (service) => {
        try {
          return [await this.#prepare(service)];
        } catch (error) {
          if (refused === undefined) throw error;
          refused(service.name, error);
          return [];
        }
      }),
    );
    const published = Promise.all(prepared.flat().map((service) => this.#begin(service, true))).then(
      () => undefined,
    );
    // Whoever waits hears of a failure; nobody may be waiting.
    published.catch(() => undefined);
    return { published };
  }

  async #prepare({ name, handler, options = {} }: Service): Promise<Announced> {
    if (typeof handler !== "function") throw new MeshError("BadConfig", "a handler is a function");
    const endpoint = {
      name: checkName(name),
      handler,
      allow: checkAllow(options),
      limit: checkLimit(options),
      version: options.version ?? "",
    };
    const context = { assurance: "session", ...this.#context } as const;
    const surroundings = { context, logger: this.#logger, observer: this.#observer };
    return {
      endpoint: new Endpoint(endpoint, surroundings),
      prepared: await this.#names.prepare(name, options),
    };
  }

  /** Serves a name and publishes it. If that fails, it is given up or tried on. */
  async #begin({ endpoint, prepared }: Announced, triesOn: boolean): Promise<void> {
    const { name } = prepared;
    const before = this.#endpoints.get(name);
    this.#endpoints.set(name, endpoint);
    this.#withdrawn.delete(name);
    try {
      await this.#names.publish(prepared, triesOn);
    } catch (error) {
      if (before !== undefined && !triesOn) this.#endpoints.set(name, before);
      else if (!triesOn) this.#endpoints.delete(name);
      throw error;
    }
  }

  /**
   * Signs, with this node's `ownerSeed`, that a peer may serve a name of its `ownerKey`; what it returns goes into the option
   * `grant` there. Once it is published, callers leave out the peers in `revoke` that have no newer grant.
   */
  grant(name: string, peer: string, options: GrantOptions): string {
    return this.#names.grant(checkName(name), peer, options);
  }

  /**
   * Stops publishing and serving a name. Requests whose senders cannot have heard of it are answered still, for half a
   * minute, so that another node can take the name over without a request's being lost.
   */
  async withdraw(name: string): Promise<void> {
    await this.#names.withdraw(checkName(name));
    this.#withdrawn.set(name, performance.now() + LINGER_MS);
  }

  /** Sends a request to `https://NAME.mesh/path` and resolves with the answer, like `fetch`. */
  async fetch(input: Request | string | URL, init: FetchInit = {}): Promise<Response> {
    const url = new URL(input instanceof Request ? input.url : input);
    return this.#caller.fetch(nameOfUrl(url), url, input, init);
  }

  /**
   * Opens a WebSocket to `wss://NAME.mesh/path`, like `new WebSocket`; its event `error` says why there is none. Through `fetch`
   * a Worker gets the platform's own, as `response.webSocket`.
   */
  webSocket(
    url: string | URL,
    protocols: string | readonly string[] = [],
    init: WebSocketInit = {},
  ): MeshSocket {
    const target = urlOfSocket(url);
    return this.#caller.webSocket(nameOfUrl(target), target, [protocols].flat(), init);
  }

  /** A service by its name, shaped like a service binding: `service("check").fetch("/x")`. */
  service(name: string, options: CallOptions = {}): { fetch: Mesh["fetch"] } {
    const checked = checkName(name);
    return {
      fetch: async (input, init = {}) =>
        this.#caller.fetch(checked, urlOfService(checked, input), input, { ...options, ...init }),
    };
  }

  /**
   * Has `fetch` send what may go to any provider of a name of one owner by a way beside sessions while none is up, until the function
   * that is returned is called. `createRpcClient` of `selfsame/rpc` does so.
   */
  divert(shortcut: Shortcut, lookup: NameOptions): () => void {
    return this.#caller.divert(shortcut, lookup);
  }

  /** Finds who serves a name. */
  async find(name: string, options: NameOptions = {}): Promise<Provider[]> {
    const owner = this.#names.ownerOf(checkName(name), options);
    return decodeProviders(await this.#driver.command((tag) => ({ type: "Find", tag, owner, name })));
  }

  /**
   * Follows who serves a name: the providers now and after each change, how they have answered included, until the
   * iteration is left or aborted, or the node is closed.
   */
  watch(name: string, options: WatchOptions = {}): AsyncIterableIterator<Provider[], undefined> {
    const owner = this.#names.ownerOf(checkName(name), options);
    const { signal } = options;
    return new Latest((watcher) => {
      const end = (): void => watcher.end();
      signal?.addEventListener("abort", end, { once: true });
      if (signal?.aborted === true) end();
      const stop = this.#driver.watch(owner, name, {
        tell: (body) => watcher.tell(decodeProviders(body)),
        end: watcher.end,
      });
      return () => {
        signal?.removeEventListener("abort", end);
        stop();
      };
    });
  }

  /** What is known of the providers of the names that this node has called lately. */
  async health(): Promise<ServiceHealth[]> {
    const called = this.#caller.called.map(async ({ name, owner }): Promise<ServiceHealth> => {
      const watching = new Latest<Uint8Array>((watcher) => this.#driver.watch(owner, name, watcher));
      const { value } = await watching.next();
      await watching.return();
      const providers = value === undefined ? [] : decodeProviders(value);
      return { name, owner: owner.length === 0 ? undefined : toHex(owner), providers };
    });
    return Promise.all(called);
  }

  /** Finds the node responsible for an id of 64 hex digits. */
  async findNode(id: string): Promise<FoundNode> {
    const bytes = fromHex(id, 32, "an id");
    return decodeFoundNode(await this.#driver.command((tag) => ({ type: "FindNode", tag, id: bytes })));
  }

  /** Messages from member to member, passed on by those between them. */
  get routing(): Routing {
    return this.#driver.routing;
  }

  /** What this node knows of itself and the ring. */
  async status(): Promise<MeshStatus> {
    const status = decodeStatus(await this.#driver.command((tag) => ({ type: "Status", tag })));
    return { ...status, bootId: this.bootId, paths: this.#driver.pathCount };
  }

  /** What this node has counted, in the text format of Prometheus; for nodes with the option `telemetry`. */
  async metrics(): Promise<string> {
    if (this.#observer === undefined) {
      throw new MeshError(
        "BadConfig",
        "nothing is counted: give the option telemetry, of selfsame/telemetry",
      );
    }
    return this.#observer.metrics(await this.status());
  }

  /**
   * Goes on with another certificate of the authority of a closed network, for the same key and address: the text that `selfsame
   * authority sign` prints, or its bytes. It is kept.
   */
  async renewCertificate(certificate: string | Uint8Array): Promise<void> {
    await this.#admitted.renew(certificate);
  }

  /**
   * Takes a list of whom the authority of a closed network admits no more, keeps it, and passes it on to the others: the text that
   * `selfsame authority revoke` prints, or its bytes.
   */
  async revoke(list: string | Uint8Array): Promise<void> {
    await this.#admitted.revoke(list);
  }

  /** Hears of everything that happens, until the function that is returned is called. */
  onEvent(listener: (event: MeshEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Hands over what this node is responsible for, leaves the ring and closes the node. Requests that are being answered may go on for
   * five seconds before, or as long as `drain` says.
   */
  async leave({ drain = DRAIN_MS }: CloseOptions = {}): Promise<void> {
    await this.#drain(checkDrain({ drain }));
    await this.#observer?.close();
    await this.#driver.command((tag) => ({ type: "Leave", tag }));
    this.#isJoined = false;
    await this.close();
  }

  /**
   * Closes the node without leaving: it may come back with the same identity. With `drain` it finishes its requests first; another
   * call without it waits for them no longer.
   */
  async close(options: CloseOptions = {}): Promise<void> {
    const drain_ms = checkDrain(options);
    if (drain_ms === 0) this.#serving.cut();
    this.#closing ??= Promise.resolve().then(async () => {
      await this.#drain(drain_ms);
      await this.#observer?.close();
      this.#driver.close();
      return this.#state.close();
    });
    return this.#closing;
  }

  /**
   * Finishes the requests that end within five seconds, leaves if that works within five more, and closes the node in any case.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closing === undefined) await this.#drain(DRAIN_MS);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, LEAVE_TIMEOUT_MS);
    });
    if (this.#closing === undefined && this.#isJoined) {
      await Promise.race([this.leave({ drain: 0 }).catch(() => undefined), timeout]);
    }
    if (timer !== undefined) clearTimeout(timer);
    await this.close();
  }

  /** Takes no more requests, and lets those that it has end. */
  async #drain(most_ms: number): Promise<void> {
    if (most_ms === 0) return;
    for (const endpoint of this.#endpoints.values()) endpoint.close();
    const withdrawn = this.#names.withdrawAll().catch((error: unknown) => {
      this.#logger.log("debug", `not every name could be withdrawn: ${error}`);
    });
    await this.#serving.drain(most_ms, withdrawn);
    // The last answers and resets leave before the paths close.
    this.#driver.flush();
  }

  /** What the observer sees of the node. */
  #observed({ network, domain }: CheckedOptions): ObservedNode {
    return {
      id: this.id,
      network,
      domain,
      timers: this.timers,
      knowsOwner: (name, whose) => this.#names.knowsOwner(name, whose),
      fetch: async (url, init) => this.#caller.fetchUnobserved(nameOfUrl(new URL(url)), new URL(url), init),
      waitUntil: (promise) => this.#context.waitUntil(promise),
      log: (level, text) => this.#logger.log(level, text),
    };
  }

  /** Does what is due beside the core's work. Cheap: every wake-up does it, so that nothing needs one of its own. */
  #tend(): void {
    this.#names.renew();
    const lookup = this.#closing === undefined ? this.#admitted.tend() : undefined;
    if (lookup !== undefined) this.#context.waitUntil(lookup);
    for (const [name, until_ms] of this.#withdrawn) {
      if (performance.now() < until_ms) continue;
      this.#withdrawn.delete(name);
      this.#endpoints.delete(name);
    }
  }

  #serve(stream: MeshStream): void {
    const endpoint = this.#endpoints.get(stream.service);
    if (endpoint === undefined) return stream.reset(new MeshError("NoService").code);
    this.#serving.follow(stream, endpoint.serve(stream));
  }

  #emit(event: MeshEvent): void {
    this.#caller.follow(event);
    this.#admitted.follow(event);
    for (const listener of this.#listeners) {
      const failed = (error: unknown): void =>
        this.#logger.log("error", `an event listener failed: ${error}`);
      try {
        const heard: unknown = listener(event);
        if (heard instanceof Promise) heard.catch(failed);
      } catch (error) {
        failed(error);
      }
    }
  }

  /** After the core was started again: joins and publishes what was. */
  async #restore(): Promise<void> {
    if (!this.#isJoined) return;
    try {
      const published = this.#names.restore();
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
