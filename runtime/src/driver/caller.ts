import { MeshError } from "../codec/code.ts";
import { toHex } from "../codec/hex.ts";
import { splice } from "../websocket/connection.ts";
import { FramedConnection } from "../websocket/framed.ts";
import {
  asksForWebSocket,
  checkAccepted,
  checkProtocols,
  newOffer,
  protocolsOf,
  refused,
  requestFields,
} from "../websocket/handshake.ts";
import { answerWith, NativeConnection, socketPair } from "../websocket/native.ts";
import { type Established, MeshSocket } from "../websocket/socket.ts";
import { type Answer, discard, responseOf } from "./answer.ts";
import { call, type Outgoing } from "./call.ts";
import type { Driver } from "./driver.ts";
import type { MeshEvent } from "./event.ts";
import type { Names } from "./names.ts";
import type { Observer } from "./observe.ts";
import { checkRedirect, requestTo } from "./request.ts";
import {
  type CallOptions,
  checkCall,
  type FetchInit,
  type NameOptions,
  splitInit,
  type Target,
} from "./service.ts";
import type { Shortcut } from "./shortcut.ts";

/** Names that are called of which is known that they were; beyond that the one that was not called for longest is forgotten. */
const MAX_CALLED = 64;

/** How a WebSocket is opened. */
export interface WebSocketInit extends CallOptions {
  /** Headers of the request that asks for it. */
  readonly headers?: HeadersInit | undefined;
}

/** What is needed to call services. */
export interface CallerParts {
  readonly driver: Driver;
  readonly names: Names;
  readonly observer: Observer | undefined;
}

/** A name that was called. */
export interface Called {
  readonly name: string;
  /** The owner's public key; empty for an unowned name. */
  readonly owner: Uint8Array;
  /** The provider that answered last in a session. */
  readonly peer: string | undefined;
}

/** A way beside sessions, and whose names it takes. */
interface Diversion {
  readonly shortcut: Shortcut;
  readonly lookup: NameOptions;
}

interface Prepared {
  readonly target: Target;
  readonly outgoing: Outgoing;
}

/** A WebSocket that a service has accepted. */
interface Opened extends Established {
  /** The answer's headers. */
  readonly headers: Headers;
}

/** Sends the requests of a node. */
export class Caller {
  readonly #parts: CallerParts;
  readonly #called: Map<string, Called> = new Map();
  /** Peers with a session. */
  readonly #peers: Set<string> = new Set();
  #diversion: Diversion | undefined;

  constructor(parts: CallerParts) {
    this.#parts = parts;
  }

  /** The names that were called lately. */
  get called(): readonly Called[] {
    return [...this.#called.values()];
  }

  /** Has requests to names of one owner take a shortcut until the function that is returned is called. */
  divert(shortcut: Shortcut, lookup: NameOptions): () => void {
    if (this.#diversion !== undefined) {
      const text = "the requests of this mesh take the RPC of another client already: close that one";
      throw new MeshError("BadConfig", text);
    }
    const diversion = { shortcut, lookup };
    this.#diversion = diversion;
    return () => {
      if (this.#diversion === diversion) this.#diversion = undefined;
    };
  }

  /** Learns which sessions are up. */
  follow(event: MeshEvent): void {
    if (event.type === "peer-connected") this.#peers.add(event.peer);
    else if (event.type === "peer-disconnected") this.#peers.delete(event.peer);
    else if (event.type === "restarted") this.#peers.clear();
  }

  /** Sends a request, with all of `input` but its URL, to a service and resolves with its answer. */
  async fetch(name: string, url: URL, input: Request | URL | string, init: FetchInit): Promise<Response> {
    const prepared = await this.#prepare(name, url, input, init);
    this.#remember(prepared.target);
    const { request, cancellation } = prepared.outgoing;
    if (asksForWebSocket(request.method, request.headers.get("upgrade"))) return this.#upgrade(prepared);
    const answer = await this.#observed(prepared);
    try {
      checkRedirect(prepared.outgoing.refusesRedirects, answer.status);
    } catch (error) {
      discard(answer);
      throw error;
    }
    return responseOf(answer, request.method, cancellation.signal);
  }

  /** The same, without an observer's hearing of it. */
  async fetchUnobserved(name: string, url: URL, init: FetchInit): Promise<Response> {
    const { target, outgoing } = await this.#prepare(name, url, url, init);
    const answer = await call(this.#parts.driver, target, outgoing);
    return responseOf(answer, outgoing.request.method, outgoing.cancellation.signal);
  }

  /** Opens a WebSocket to a service. */
  webSocket(name: string, url: URL, protocols: readonly string[], init: WebSocketInit): MeshSocket {
    checkProtocols(protocols);
    const abort = new AbortController();
    const opening = this.#connect(name, url, protocols, { ...init, signal: abort.signal } as FetchInit);
    return new MeshSocket(url.href, opening, (error) => abort.abort(error));
  }

  async #connect(
    name: string,
    url: URL,
    protocols: readonly string[],
    init: FetchInit,
  ): Promise<Established> {
    const prepared = await this.#prepare(name, url, url, init);
    this.#remember(prepared.target);
    const opened = await this.#open(prepared, protocols);
    if (!(opened instanceof Response)) return opened;
    await opened.body?.cancel();
    throw refused(opened.status);
  }

  /** Answers a request for a WebSocket as the `fetch` of workerd does. */
  async #upgrade(prepared: Prepared): Promise<Response> {
    const Pair = socketPair();
    if (Pair === undefined) {
      throw new MeshError(
        "BadConfig",
        "an answer holds no WebSocket on this platform: use mesh.webSocket(url)",
      );
    }
    const { headers } = prepared.outgoing.request;
    const protocols = checkProtocols(protocolsOf(headers.get("sec-websocket-protocol")));
    const opened = await this.#open(prepared, protocols);
    if (opened instanceof Response) return opened;
    const { 0: client, 1: server } = new Pair();
    splice(opened.connection, new NativeConnection(server));
    // Whoever hands the answer on has a key of its own.
    opened.headers.delete("sec-websocket-accept");
    return answerWith(client, opened.headers);
  }

  /** Asks for a WebSocket: the connection, or the answer that refuses it. */
  async #open({ target, outgoing }: Prepared, protocols: readonly string[]): Promise<Opened | Response> {
    const offer = newOffer(protocols);
    const answer = await this.#observed({ target, outgoing: { ...outgoing, upgrade: requestFields(offer) } });
    if (answer.status !== 101) return responseOf(answer, "GET", outgoing.cancellation.signal);
    try {
      const protocol = await checkAccepted(offer, answer.headers);
      const connection = new FramedConnection(answer.stream, answer.rest, true);
      return { connection, protocol, headers: answer.headers };
    } catch (error) {
      discard(answer);
      throw error;
    }
  }

  /** Sends a request of which the observer hears. */
  async #observed({ target, outgoing }: Prepared): Promise<Answer> {
    const { driver, observer } = this.#parts;
    const observation = observer?.call(outgoing.request, target.name);
    const shortcut = outgoing.upgrade === undefined ? this.#shortcutOf(target) : undefined;
    try {
      const answer = await call(driver, target, {
        ...outgoing,
        observation,
        shortcut: this.#isConnected(target) ? undefined : shortcut,
      });
      observation?.answered(answer.status);
      // The provider at the end of a shortcut is not known.
      const { peer } = answer.stream;
      if (peer.length > 0) {
        this.#remember(target, toHex(peer));
        shortcut?.answered(target.name);
      }
      return answer;
    } catch (error) {
      observation?.failed(error);
      throw error;
    }
  }

  async #prepare(name: string, url: URL, input: Request | URL | string, init: FetchInit): Promise<Prepared> {
    const { call: options, request: rest } = splitInit(init);
    const target = checkCall(name, this.#parts.names.ownerOf(name, options), options);
    return { target, outgoing: await requestTo(url, input, rest) };
  }

  /** Returns the shortcut if the request is to a name that it takes, and may go to any provider. */
  #shortcutOf({ name, owner, peer, key, policy, isForwardSecret }: Target): Shortcut | undefined {
    if (this.#diversion === undefined || isForwardSecret) return undefined;
    const { shortcut, lookup } = this.#diversion;
    const { names } = this.#parts;
    const isTaken = names.knowsOwner(name, lookup) && toHex(names.ownerOf(name, lookup)) === toHex(owner);
    const isForAny = peer === undefined && key.length === 0 && policy === "PowerOfTwo";
    return isTaken && isForAny ? shortcut : undefined;
  }

  /** Whether a session with the provider that answered last is up. */
  #isConnected(target: Target): boolean {
    const peer = this.#called.get(keyOf(target))?.peer;
    return peer !== undefined && this.#peers.has(peer);
  }

  #remember(target: Target, answered?: string): void {
    const { name, owner } = target;
    const key = keyOf(target);
    const peer = answered ?? this.#called.get(key)?.peer;
    // The one that was called last stands last.
    this.#called.delete(key);
    this.#called.set(key, { name, owner, peer });
    const [oldest] = this.#called.keys();
    if (this.#called.size > MAX_CALLED && oldest !== undefined) this.#called.delete(oldest);
  }
}

function keyOf({ name, owner }: Target): string {
  return `${name} ${toHex(owner)}`;
}
