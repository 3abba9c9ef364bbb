import { RpcClient, type RpcClientOptions } from "../rpc/client.ts";
import { platformOf } from "../rpc/platform.ts";
import { PreSharedKey, type PreSharedKeyOptions } from "../rpc/pre-shared-key.ts";
import { RpcServer, type RpcServerOptions } from "../rpc/server.ts";
import { RPC_SUBPROTOCOL } from "../rpc/websocket-protocol.ts";
import { rpcBase64 } from "../rpc-base64.js";
import { platformSocket } from "../transports/websocket.ts";

export * from "./rpc-common.ts";

const platform = /* @__PURE__ */ platformOf({
  module: () => WebAssembly.compile(Uint8Array.from(atob(rpcBase64), (character) => character.charCodeAt(0))),
  udp: undefined,
  fetch: () => (url, init) => fetch(url, init),
  socket: () => platformSocket(RPC_SUBPROTOCOL),
  upgrade: undefined,
});

/** The module of the RPC, which is loaded and compiled once, when it is first asked for. */
export const rpcModule: () => Promise<WebAssembly.Module> = () => platform.module();

/** Makes a client, which calls services by name. */
export const createRpcClient: (options: RpcClientOptions) => RpcClient = (options) =>
  new RpcClient(options, platform);

/** Makes a server: a replica of a service. */
export const createRpcServer: (options: RpcServerOptions) => RpcServer = (options) =>
  new RpcServer(options, platform);

/** Makes tickets for a client without a mesh, out of the secrets of the services that it calls. */
export const preSharedKey: (options: PreSharedKeyOptions) => PreSharedKey = (options) =>
  new PreSharedKey(options, platform.module);
