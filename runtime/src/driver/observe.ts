import type { CoreStatus } from "../codec/reply.ts";
import type { Timers } from "./timers.ts";

/** The node that an observer follows. */
export interface ObservedNode {
  /** Its peer id, 64 hex digits. */
  readonly id: string;
  /** Name of its network. */
  readonly network: string;
  /** Label of what fails together with it. */
  readonly domain: string;
  /** Timers of its host. */
  readonly timers: Timers;
  /** Whether it is known whose a name is, so that it can be called. */
  knowsOwner(name: string, whose: Whose): boolean;
  /** Sends a request into the mesh that no observer hears of. */
  fetch(url: string, init: RequestInit & Whose): Promise<Response>;
  /** Keeps the node awake until the promise settles. */
  waitUntil(promise: Promise<unknown>): void;
  /** Writes to the node's log. */
  log(level: "debug" | "warn", text: string): void;
}

/** Whose name is meant. */
export interface Whose {
  /** The name belongs to nobody. */
  readonly unowned?: boolean | undefined;
  /** Public key of the name's owner, in place of the configured one. */
  readonly owner?: string | undefined;
}

/** Hears of one request that this node sends. */
export interface CallObservation {
  /** A provider took the request; with several of them, those before did not answer. */
  attempt(peer: string): void;
  /** The answer began. */
  answered(status: number): void;
  /** There is no answer. */
  failed(error: unknown): void;
}

/** A request to a service of this node. */
export interface Served {
  /** The name that was called. */
  readonly service: string;
  /** The version that answers; may be empty. */
  readonly version: string;
  /** The caller's peer id. */
  readonly caller: string;
}

/** Hears of one request that this node serves. */
export interface ServeObservation {
  /** Calls the handler, in whose context the requests that it makes are known to belong to this one. */
  run<T>(handler: () => T): T;
  /** The answer was sent whole. */
  answered(status: number): void;
  /** There is no answer, or it was cut off. */
  failed(error: unknown): void;
}

/** What a node knows of itself and the ring. */
export interface NodeStatus extends CoreStatus {
  /** Open paths. */
  readonly paths: number;
}

/** Follows the requests that a node sends and serves; `telemetry` of `selfsame/telemetry` makes one. */
export interface Observer {
  /** The node is known; said once, before any request. */
  follow(node: ObservedNode): void;
  /** A request is about to be sent; the observer may set headers of it. */
  call(request: Request, service: string): CallObservation;
  /** A request is about to reach its handler; the observer may set headers of it. */
  serve(request: Request, served: Served): ServeObservation;
  /** What was counted, as Prometheus reads it. */
  metrics(status: NodeStatus): string;
  /** Sends what is queued; the node is about to close. */
  close(): Promise<void>;
}
