import type { CallContext } from "../driver/serve.ts";

export {
  type CodeName,
  type CoreStatus,
  type ErrorClass,
  type Membership,
  MeshError,
  type NodeInfo,
  type Provider,
  type Role,
  type ServiceInfo,
  type Tried,
  type Validity,
} from "../codec/index.ts";
export type { AdmissionMethod } from "../driver/admission.ts";
export type { WebSocketInit } from "../driver/caller.ts";
export type { MeshEvent } from "../driver/event.ts";
export type { LogLevel, LogRecord, LogSink } from "../driver/log.ts";
export { Mesh } from "../driver/mesh.ts";
export type { Observer } from "../driver/observe.ts";
export type { JoinOptions, NodeOptions } from "../driver/options.ts";
export type {
  RoutedHandler,
  RoutedMessage,
  RouteOptions,
  RouteTarget,
  Routing,
} from "../driver/routed.ts";
export { type Assurance, type CallContext, contextOf, type Handler } from "../driver/serve.ts";
export type {
  Allow,
  CallOptions,
  FetchInit,
  GrantOptions,
  NameOptions,
  PublishOptions,
  ServeOptions,
} from "../driver/service.ts";
export type { CloseOptions } from "../driver/serving.ts";
export type { Shortcut, WholeRequest } from "../driver/shortcut.ts";
export type { MeshStatus, ServiceHealth } from "../driver/status.ts";
export type { WatchOptions } from "../driver/watch.ts";
export { memory } from "../stores/memory.ts";
export type { Entry, MaybePromise, Operation, Store, StoreFactory } from "../stores/store.ts";
export {
  MeshSocket,
  type MessageArrived,
  type SocketClosed,
  type SocketEvents,
  type SocketFailed,
} from "../websocket/socket.ts";
export { type Upgrade, type UpgradeOptions, upgradeWebSocket } from "../websocket/upgrade.ts";

/** How often a node in a process or page does its maintenance. */
export const IDLE_MS = 15_000;

/** The environment of handlers in a process or page: nothing but promises that outlive their answer. */
export const processContext: Pick<CallContext, "env" | "waitUntil"> = {
  env: {},
  waitUntil: (promise) => {
    promise.catch((error: unknown) => console.error("selfsame: a promise given to waitUntil failed", error));
  },
};
