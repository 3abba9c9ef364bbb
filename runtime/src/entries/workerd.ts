export {
  type CodeName,
  type CoreStatus,
  type ErrorClass,
  MeshError,
  type NodeInfo,
  type Provider,
  type Role,
  type ServiceInfo,
} from "../codec/index.ts";
export type { LogLevel, LogRecord, LogSink } from "../driver/log.ts";
export type { CallOptions, FetchInit, MeshStatus, NameOptions, PublishOptions } from "../driver/mesh.ts";
export type { NodeOptions } from "../driver/options.ts";
export { durableObject } from "../stores/durable-object.ts";
export {
  type CallResult,
  MeshNode,
  type MeshNodeOptions,
  type MeshProps,
  type ServiceOptions,
} from "../workerd/mesh-node.ts";
