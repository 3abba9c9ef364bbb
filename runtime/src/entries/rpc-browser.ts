import type { RpcClient, RpcClientOptions } from "../rpc/client.ts";
import type { RpcServer, RpcServerOptions } from "../rpc/server.ts";
import { rpcBase64 } from "../rpc-base64.js";
import { rpcOf } from "./rpc-common.ts";

export * from "./rpc-common.ts";

const rpc = /* @__PURE__ */ rpcOf({
  module: () => WebAssembly.compile(Uint8Array.from(atob(rpcBase64), (character) => character.charCodeAt(0))),
  udp: undefined,
  fetch: () => (url, init) => fetch(url, init),
});

/** The module of the RPC, which is loaded and compiled once, when it is first asked for. */
export const rpcModule: () => Promise<WebAssembly.Module> = () => rpc.rpcModule();

/** Makes a client, which calls services by name. */
export const createRpcClient: (options: RpcClientOptions) => RpcClient = (options) =>
  rpc.createRpcClient(options);

/** Makes a server: a replica of a service. */
export const createRpcServer: (options: RpcServerOptions) => RpcServer = (options) =>
  rpc.createRpcServer(options);
