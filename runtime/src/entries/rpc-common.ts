export { MeshError } from "../codec/code.ts";
export type { RpcCaller, RpcCallOptions } from "../rpc/call-options.ts";
export {
  RpcClient,
  type RpcClientOptions,
  type RpcClientSettings,
  type RpcMesh,
  type RpcTicketOptions,
} from "../rpc/client.ts";
export type { RpcFetchInit } from "../rpc/fetch/fetch.ts";
export { type RpcHandler, RpcRefusal, type RpcRequest } from "../rpc/handler.ts";
export { KEYS_PATH, SharedTicketKeys, shareTicketKeys, type TicketKeySharing } from "../rpc/key-sharing.ts";
export type { RpcAnswer } from "../rpc/line.ts";
export type { UdpPlace } from "../rpc/platform.ts";
export type { PreSharedKey, PreSharedKeyOptions, PreSharedService } from "../rpc/pre-shared-key.ts";
export type { ProcedureOptions } from "../rpc/procedures/calls.ts";
export { ProcedureError } from "../rpc/procedures/error.ts";
export {
  type CallContext,
  type Implementation,
  type ImplementOptions,
  implement,
  type ProcedureHandler,
  type StreamContext,
} from "../rpc/procedures/implement.ts";
export {
  type CallDefinition,
  type CallProcedure,
  type Contract,
  procedure,
  procedures,
  type StreamDefinition,
  type StreamProcedure,
} from "../rpc/procedures/procedure.ts";
export type {
  InputOf,
  OutputOf,
  RpcIssue,
  Schema,
  SchemaIssue,
  SchemaResult,
} from "../rpc/procedures/schema.ts";
export { type TypedClient, typed } from "../rpc/procedures/typed.ts";
export { type RpcOrigin, RpcServer, type RpcServerOptions } from "../rpc/server.ts";
export type { SessionCall, SessionOutcome } from "../rpc/session-call.ts";
export { type MeshHandler, type RpcSessionOptions, rpcInSession } from "../rpc/session-service.ts";
export { type InSession, type RpcTicket, TICKET_PATH } from "../rpc/ticket.ts";
export type { RpcTicketSource } from "../rpc/ticket-source.ts";
