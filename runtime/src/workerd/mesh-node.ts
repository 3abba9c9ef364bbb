import { DurableObject } from "cloudflare:workers";
import core from "../../core/core.wasm";
import { MeshError, type Tried } from "../codec/code.ts";
import type { Provider } from "../codec/reply.ts";
import { Mesh } from "../driver/mesh.ts";
import { nodeKeyOf } from "../driver/node-key.ts";
import type { NodeOptions } from "../driver/options.ts";
import type { Platform } from "../driver/platform.ts";
import type { Handler } from "../driver/serve.ts";
import type { CallOptions, NameOptions, PublishOptions, ServeOptions, Service } from "../driver/service.ts";
import type { MeshStatus, ServiceHealth } from "../driver/status.ts";
import { detach } from "../guard.ts";
import { durableObject } from "../stores/durable-object.ts";
import { ExchangeAcceptor } from "../transports/exchange-accept.ts";
import { ExchangeDialler } from "../transports/exchange-dial.ts";
import { Activity } from "../transports/protocol.ts";
import { asksForWebSocket } from "../websocket/handshake.ts";
import { AlarmTimer } from "./alarm.ts";
import { Amendments } from "./amendments.ts";
import { ObjectClock } from "./object-clock.ts";
import { ObjectTimers } from "./object-timers.ts";
import { remoteOf, Sockets } from "./sockets.ts";
import { Upgrades } from "./upgrades.ts";

/** Time between maintenance of an idle object: each costs a request and an alarm, and ten in ten minutes are the most. */
const IDLE_MS = 75_000;
/** A node that could not join tries again after so long, and one that has ended is opened anew. */
const REJOIN_MS = 30_000;

/** A node that a closed network does not admit is opened anew after so long at the earliest: whoever asks does not cause a lookup each. */
const READMIT_MS = 10_000;

/** What a Durable Object's node is configured with, from its environment. */
export interface MeshNodeOptions extends NodeOptions {
  /** The owner's grant for each name that is served, as base64url. */
  readonly grants?: Readonly<Record<string, string>> | undefined;
  /** How an address in one's own namespace is reached: its stub. Others are reached with `fetch`. */
  readonly dial?: ((address: string) => Pick<Fetcher, "fetch"> | undefined) | undefined;
}

/** A service of a node: the name of the `WorkerEntrypoint` class that answers, how it is published and who may call. */
export interface ServiceOptions extends ServeOptions {
  /** Name of the exported class. */
  readonly entrypoint: string;
}

/** What an entrypoint finds in `this.ctx.props` when a peer calls it. */
export interface MeshProps {
  /** The caller's peer id, 64 hex digits. */
  readonly caller: string;
  /** How sure that is. */
  readonly assurance: "session" | "ticket";
}

/** An answer, or why there is none: an error keeps its code this way over the binding. */
export type CallResult =
  | { readonly response: Response }
  | { readonly error: { readonly code: number; readonly message: string; readonly tried: readonly Tried[] } };

/** What came of a request for a WebSocket: a socket that is to be collected, an answer that refuses it, or an error. */
export type UpgradeResult = CallResult | { readonly accepted: true };

/** What a node serves besides its services. */
export interface Extended {
  /** Resolves when it is published. */
  readonly published: Promise<void>;
  /** Does what is due: called when the node has joined, and with each of its alarms. */
  tend?(): Promise<void>;
  /** Ends it, when the node has left the ring. */
  close(): Promise<void>;
}

/** Lets a node serve more, before it hears of anything. */
export type Extension = (mesh: Mesh, storage: DurableObjectStorage) => Promise<Extended>;

/** The props that give an entrypoint by its name, from `ctx.exports`. */
type Exports = Readonly<Record<string, (options: { props: MeshProps }) => Pick<Fetcher, "fetch">>>;

/**
 * A node of the mesh in a Durable Object with SQLite storage. It sleeps when nothing happens: peers reach it by
 * hibernating WebSockets and POSTs, it dials by POST, and its timers are alarms.
 */
export abstract class MeshNode<Env = unknown> extends DurableObject<Env> {
  /** The node's configuration. */
  abstract options: (env: Env) => MeshNodeOptions;
  /** The services, by the name under which they are published. */
  services: Readonly<Record<string, string | ServiceOptions>> = {};
  /** What the node serves besides: `capsules()` of `selfsame/capsule`. */
  more: Extension | undefined = undefined;

  readonly #clock: ObjectClock = new ObjectClock(this.ctx.storage.sql);
  readonly #activity: Activity = new Activity(() => {
    this.#timer?.arrange();
    this.#timers.rest();
  });
  readonly #timers: ObjectTimers = new ObjectTimers(this.#activity);
  #timer: AlarmTimer | undefined;
  #node: Promise<RunningNode> | undefined;
  #joining: Promise<void> | undefined;
  /** Why a node of a closed network could not be opened last, and when on the monotonic clock. */
  #refused: { readonly error: unknown; readonly at_ms: number } | undefined;
  /** When the node ended because it could not go on, on the monotonic clock. */
  #ended_ms: number | undefined;
  /** Calls that can be given up, by the tickets of those who made them. */
  readonly #calls: Map<string, AbortController> = new Map();
  readonly #upgrades: Upgrades = new Upgrades(this.#timers);

  /** Accepts peers: WebSockets and POSTs at `/.mesh`. Gives a socket to the Worker that has the ticket of `upgrade`. */
  override async fetch(request: Request): Promise<Response> {
    const collected = this.#upgrades.collect(request);
    if (collected !== undefined) return collected;
    return this.#during(async ({ sockets, exchange }) => {
      const isUpgrade = request.headers.get("upgrade")?.toLowerCase() === "websocket";
      return isUpgrade ? sockets.accept(request) : exchange.handle(request, remoteOf(request));
    });
  }

  /** A frame on a hibernating socket. */
  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    await this.#during(async ({ sockets }) => sockets.message(socket, message));
  }

  /** A hibernating socket closed. */
  override async webSocketClose(socket: WebSocket): Promise<void> {
    await this.#during(async ({ sockets }) => sockets.closed(socket));
  }

  /** A hibernating socket failed. */
  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.#during(async ({ sockets }) => sockets.closed(socket));
  }

  /** The core's wake-up time has come. */
  override async alarm(): Promise<void> {
    this.#timer?.fired();
    await this.#during(async (node) => {
      node.exchange.sweep();
      node.mesh.flush();
      await this.#joined(node).catch(() => undefined);
      if (this.#joining !== undefined) await this.#tend(node.extended);
    });
  }

  /**
   * Sends a request into the mesh. For the Worker that holds the binding; nothing public leads here. `cancel` with the same
   * random `ticket` gives it up until its answer has begun; an answer that is not wanted any more is cancelled itself.
   */
  async call(request: Request, options: CallOptions = {}, ticket = ""): Promise<CallResult> {
    if (asksForWebSocket(request.method, request.headers.get("upgrade"))) {
      return failed(new MeshError("BadConfig", "an answer of call holds no WebSocket: use upgrade"));
    }
    return this.#call(request, options, ticket).catch(failed);
  }

  /**
   * Asks a service for a WebSocket, like `call`. One that is accepted is in the answer to the next `fetch` of this object whose
   * request has the header `selfsame-ticket` with the same random ticket, and is kept for ten seconds.
   */
  async upgrade(request: Request, options: CallOptions, ticket: string): Promise<UpgradeResult> {
    try {
      if (ticket === "") throw new MeshError("BadConfig", "upgrade takes a random ticket");
      const called = await this.#call(request, options, ticket);
      if (called.response.webSocket === null) return called;
      this.#upgrades.keep(ticket, called.response);
      return { accepted: true };
    } catch (error) {
      return failed(error);
    }
  }

  /** Gives up a call. */
  async cancel(ticket: string): Promise<void> {
    this.#calls.get(ticket)?.abort(new MeshError("Cancelled"));
  }

  /** Finds who serves a name. */
  async find(name: string, options: NameOptions = {}): Promise<Provider[]> {
    return this.#during(async (node) => {
      await this.#joined(node);
      return node.mesh.find(name, options);
    });
  }

  /** What is known of the providers of the names that this node has called since it woke. */
  async health(): Promise<ServiceHealth[]> {
    return this.#during(async ({ mesh }) => mesh.health());
  }

  /** What the node knows of itself and the ring. */
  async status(): Promise<MeshStatus> {
    return this.#during(async (node) => {
      await this.#joined(node).catch(() => undefined);
      return node.mesh.status();
    });
  }

  /** What the node has counted, in the text format of Prometheus, if it has the option `telemetry`. */
  async metrics(): Promise<string> {
    return this.#during(async (node) => node.mesh.metrics());
  }

  /**
   * Changes how a service of `services` is published while it runs: its grant, version, weight or replicas. What is not
   * given stays as it is. It is kept while the node sleeps, until the service is configured otherwise.
   */
  async publish(name: string, options: PublishOptions): Promise<void> {
    await this.#during(async (node) => {
      const service = this.#serviceOf(name);
      const { entrypoint, configured, ...serving } = service;
      const before = node.amendments.of(name, configured);
      const amended = { ...(before === "withdrawn" ? {} : before), ...options };
      await this.#joined(node);
      const handler = this.#entrypoint(entrypoint);
      await node.mesh.serve(name, handler, { ...configured, ...serving, ...amended });
      node.amendments.set(name, configured, amended);
    });
  }

  /** Stops publishing a service of `services`, until `publish` is called for it or it is configured otherwise. */
  async withdraw(name: string): Promise<void> {
    await this.#during(async (node) => {
      const { configured } = this.#serviceOf(name);
      await this.#joined(node);
      await node.mesh.withdraw(name);
      node.amendments.set(name, configured, "withdrawn");
    });
  }

  /** The public key of the node in its network, which the authority of a closed one signs. It may be asked for before. */
  async nodeKey(): Promise<string> {
    const { network, seed, admission } = this.options(this.env);
    const module = admission === undefined ? core : await admission.core();
    return nodeKeyOf({ network, seed, storage: durableObject(this.ctx.storage) }, module);
  }

  /** Goes on with another certificate of the authority of a closed network, and keeps it: `selfsame authority sign` prints one. */
  async renewCertificate(certificate: string | Uint8Array): Promise<void> {
    await this.#during(async ({ mesh }) => mesh.renewCertificate(certificate));
  }

  /** Takes a list of whom the authority of a closed network admits no more: `selfsame authority revoke` prints one. */
  async revoke(list: string | Uint8Array): Promise<void> {
    await this.#during(async ({ mesh }) => mesh.revoke(list));
  }

  /** The public key under which the node grants itself names, if it has an `ownerSeed`. */
  async ownerKey(): Promise<string | undefined> {
    return this.#during(async ({ mesh }) => mesh.ownerKey);
  }

  /** Leaves the ring; the next event makes the node join again. */
  async leave(): Promise<void> {
    await this.#during(async ({ mesh, extended }) => {
      await mesh.leave();
      await extended?.close();
      this.#forget();
    });
  }

  /** Does something with the node once it has joined; the object stays awake while it lasts. For methods of subclasses. */
  protected async during<T>(work: (mesh: Mesh) => Promise<T>): Promise<T> {
    return this.#during(async (node) => {
      await this.#joined(node);
      return work(node.mesh);
    });
  }

  async #call(
    request: Request,
    options: CallOptions,
    ticket: string,
  ): Promise<{ readonly response: Response }> {
    const abort = new AbortController();
    if (ticket !== "") this.#calls.set(ticket, abort);
    try {
      return await this.#during(async (node) => {
        await this.#joined(node);
        return { response: await node.mesh.fetch(request, { ...options, signal: abort.signal }) };
      });
    } finally {
      this.#calls.delete(ticket);
    }
  }

  /** Does something with the running node; while it lasts, near wake-ups use a timer. */
  async #during<T>(work: (node: RunningNode) => Promise<T>): Promise<T> {
    const done = this.#activity.begin();
    try {
      const node = await this.#running();
      const result = await work(node);
      await node.mesh.paths.settled();
      return result;
    } finally {
      done();
    }
  }

  #running(): Promise<RunningNode> {
    if (this.#clock.standsStill)
      this.ctx.abort("selfsame: the clock was set back, and this object's stands still");
    if (this.#ended_ms !== undefined && performance.now() - this.#ended_ms >= REJOIN_MS) this.#forget();
    if (this.#refused !== undefined && performance.now() - this.#refused.at_ms < READMIT_MS)
      return Promise.reject(this.#refused.error);
    this.#node ??= this.#open().catch((error: unknown) => {
      this.#forget();
      throw error;
    });
    return this.#node;
  }

  /** Lets go of the node: the next event opens it anew. */
  #forget(): void {
    this.#node = undefined;
    this.#joining = undefined;
    this.#ended_ms = undefined;
  }

  async #open(): Promise<RunningNode> {
    const { grants: _, dial, ...options } = this.options(this.env);
    const alarm_ms = await this.ctx.storage.getAlarm();
    const platform: Platform = {
      module: () => core,
      dialler: new ExchangeDialler((address) => viaStub(dial?.(address)), this.#activity, this.#timers),
      idle_ms: IDLE_MS,
      timer: (wake) => {
        this.#timer = new AlarmTimer(this.ctx.storage, this.#activity, this.#timers, wake, (error) => {
          console.error("selfsame: an alarm could not be set", error);
        });
        this.#timer.adopt(alarm_ms);
        return this.#timer;
      },
      timers: this.#timers,
      context: { env: this.env, waitUntil: (promise) => this.ctx.waitUntil(promise) },
    };
    // The paths that survived come first: the core begins to dial as soon as it has loaded its state.
    let sockets: Sockets | undefined;
    const opened = Mesh.open(options, durableObject(this.ctx.storage), platform, [], (opening) => {
      opening.onEvent(({ type }) => {
        if (type === "ended") this.#ended_ms = performance.now();
      });
      sockets = new Sockets(this.ctx, opening.paths);
      sockets.resume();
    });
    const mesh = await opened.catch((error: unknown) => {
      if (options.admission !== undefined) this.#refused = { error, at_ms: performance.now() };
      throw error;
    });
    // The frame that woke the object may call a service: the core must know them all before it sees the frame.
    const amendments = new Amendments(this.ctx.storage.sql);
    const announced = await mesh.announce(this.#announced(amendments), notServed);
    const extended = await this.more?.(mesh, this.ctx.storage);
    const published = Promise.all([announced.published, extended?.published]).then(() => undefined);
    this.#join(mesh, published, extended);
    const exchange = new ExchangeAcceptor(mesh.paths, this.#activity, this.#timers);
    return { mesh, amendments, extended, published, sockets: sockets as Sockets, exchange };
  }

  /** Joins the ring; a failure is tried again by the next alarm. */
  #join(mesh: Mesh, published: Promise<void>, extended: Extended | undefined): void {
    const done = this.#activity.begin();
    this.#joining = (async () => {
      try {
        await mesh.join(0);
        await published.catch((error: unknown) => {
          console.error(
            `selfsame: a service could not be published: ${error instanceof Error ? error.message : error}`,
          );
        });
      } catch (error) {
        this.#joining = undefined;
        console.warn(`selfsame: the node could not join: ${error instanceof Error ? error.message : error}`);
        this.#timer?.retry(Date.now() + REJOIN_MS);
        throw error;
      } finally {
        done();
      }
    })();
    // Whoever needs the ring hears of a failure; nobody may be waiting.
    detach(
      "joining",
      this.#joining.then(
        () => this.#tend(extended),
        () => undefined,
      ),
    );
  }

  /** Lets what is served besides do what is due; the object stays awake meanwhile. */
  async #tend(extended: Extended | undefined): Promise<void> {
    const done = this.#activity.begin();
    try {
      await extended?.tend?.();
    } catch (error) {
      console.error("selfsame: what is served besides failed", error);
    } finally {
      done();
    }
  }

  /** Resolves when the node has joined and published its services; begins again after a failure. */
  async #joined({ mesh, published, extended }: RunningNode): Promise<void> {
    if (this.#joining === undefined) this.#join(mesh, published, extended);
    await this.#joining;
  }

  #announced(amendments: Amendments): Service[] {
    return Object.keys(this.services).flatMap((name) => {
      const { entrypoint, configured, ...serving } = this.#serviceOf(name);
      const amended = amendments.of(name, configured);
      if (amended === "withdrawn") return [];
      return {
        name,
        handler: this.#entrypoint(entrypoint),
        options: { ...configured, ...serving, ...amended },
      };
    });
  }

  /** A service as it is configured: how it is published apart from how it is served. */
  #serviceOf(name: string): { entrypoint: string; configured: PublishOptions } & ServeOptions {
    const service = Object.hasOwn(this.services, name) ? this.services[name] : undefined;
    if (service === undefined) throw new MeshError("NoService", `services has no ${name}`);
    const options = typeof service === "string" ? { entrypoint: service } : service;
    const { entrypoint, allow, limit, ...configured } = options;
    const grant = configured.grant ?? this.options(this.env).grants?.[name];
    return { entrypoint, allow, limit, configured: { ...configured, grant } };
  }

  /** A handler that hands requests to an entrypoint of this Worker, with the caller where no header can forge it. */
  #entrypoint(name: string): Handler {
    const exported = (this.ctx as unknown as { exports?: Exports }).exports?.[name];
    if (exported === undefined) {
      throw new MeshError(
        "BadConfig",
        `the Worker exports no WorkerEntrypoint ${name}, or its compatibility flag enable_ctx_exports is off`,
      );
    }
    return async (request, { caller, assurance }) => {
      const done = this.#activity.begin();
      // Whoever gave up is not waited for, whatever the entrypoint does.
      request.signal.addEventListener("abort", done, { once: true });
      try {
        // A redirect of the service is for whoever asked.
        const asked = new Request(request, { redirect: "manual" });
        return await exported({ props: { caller, assurance } }).fetch(asked);
      } finally {
        done();
      }
    };
  }
}

interface RunningNode {
  readonly mesh: Mesh;
  readonly amendments: Amendments;
  readonly extended: Extended | undefined;
  /** Resolves when its services are published. */
  readonly published: Promise<void>;
  readonly sockets: Sockets;
  readonly exchange: ExchangeAcceptor;
}

/** Tells of a service that is left out: an owner needs the node's id from `status` before it can make a grant. */
function notServed(name: string, error: unknown): void {
  console.error(`selfsame: ${name} is not served: ${error instanceof Error ? error.message : error}`);
}

/** An error as it passes through the binding. */
function failed(cause: unknown): CallResult {
  const { code, message, tried } =
    cause instanceof MeshError ? cause : new MeshError("HandlerFailed", String(cause));
  return { error: { code, message, tried } };
}

function viaStub(
  stub: Pick<Fetcher, "fetch"> | undefined,
): ReturnType<NonNullable<ConstructorParameters<typeof ExchangeDialler>[0]>> {
  return stub && ((url, init) => stub.fetch(url, init));
}
