export {
  type CodeName,
  type CoreStatus,
  type ErrorClass,
  MeshError,
  type NodeInfo,
  type Provider,
  type Role,
  type ServiceInfo,
  type Tried,
} from "../codec/index.ts";
export type { AdmissionMethod } from "../driver/admission.ts";
export type { LogLevel, LogRecord, LogSink } from "../driver/log.ts";
export type { Observer } from "../driver/observe.ts";
export type { NodeOptions } from "../driver/options.ts";
export type {
  Allow,
  CallOptions,
  FetchInit,
  GrantOptions,
  NameOptions,
  PublishOptions,
  ServeOptions,
} from "../driver/service.ts";
export type { MeshStatus, ServiceHealth } from "../driver/status.ts";
export { durableObject } from "../stores/durable-object.ts";
export {
  type CallResult,
  type Extended,
  type Extension,
  MeshNode,
  type MeshNodeOptions,
  type MeshProps,
  type ServiceOptions,
  type UpgradeResult,
} from "../workerd/mesh-node.ts";
