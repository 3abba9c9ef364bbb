import { RpcClient, type RpcClientOptions } from "../rpc/client.ts";
import type { RpcPlatform } from "../rpc/platform.ts";
import { RpcServer, type RpcServerOptions } from "../rpc/server.ts";

export { MeshError } from "../codec/code.ts";
export {
  type RpcCallOptions,
  RpcClient,
  type RpcClientOptions,
  type RpcMesh,
} from "../rpc/client.ts";
export { type RpcHandler, RpcRefusal, type RpcRequest } from "../rpc/handler.ts";
export type { RpcAnswer } from "../rpc/line.ts";
export type { UdpPlace } from "../rpc/platform.ts";
export { type RpcOrigin, RpcServer, type RpcServerOptions } from "../rpc/server.ts";
export { TICKET_PATH } from "../rpc/ticket.ts";

/** Makes clients and servers of a platform; `compile` is asked once. */
export function rpcOf({ module: compile, ...platform }: RpcPlatform): {
  readonly rpcModule: () => Promise<WebAssembly.Module>;
  readonly createRpcClient: (options: RpcClientOptions) => RpcClient;
  readonly createRpcServer: (options: RpcServerOptions) => RpcServer;
} {
  let compiled: Promise<WebAssembly.Module> | undefined;
  const module = (): Promise<WebAssembly.Module> => {
    compiled ??= compile();
    return compiled;
  };
  return {
    rpcModule: module,
    createRpcClient: (options) => new RpcClient(options, { ...platform, module }),
    createRpcServer: (options) => new RpcServer(options, { ...platform, module }),
  };
}
