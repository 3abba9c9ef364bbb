export { MeshError } from "../codec/code.ts";
export {
  type RpcCallOptions,
  RpcClient,
  type RpcClientOptions,
  type RpcMesh,
} from "../rpc/client.ts";
export { type RpcHandler, RpcRefusal, type RpcRequest } from "../rpc/handler.ts";
export { KEYS_PATH, SharedTicketKeys, shareTicketKeys, type TicketKeySharing } from "../rpc/key-sharing.ts";
export type { RpcAnswer } from "../rpc/line.ts";
export type { UdpPlace } from "../rpc/platform.ts";
export { type RpcOrigin, RpcServer, type RpcServerOptions } from "../rpc/server.ts";
export { TICKET_PATH } from "../rpc/ticket.ts";
