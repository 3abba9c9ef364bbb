import compiled from "../../core/rpc.wasm";
import { RpcClient, type RpcClientOptions } from "../rpc/client.ts";
import { platformOf } from "../rpc/platform.ts";
import { PreSharedKey, type PreSharedKeyOptions } from "../rpc/pre-shared-key.ts";
import { RpcServer, type RpcServerOptions } from "../rpc/server.ts";
import type { Upgraded } from "../rpc/websocket-binding.ts";
import { RPC_SUBPROTOCOL } from "../rpc/websocket-protocol.ts";
import { platformSocket, type Socket } from "../transports/websocket.ts";
import { answerWith, type NativeSocket } from "../websocket/native.ts";

export * from "./rpc-common.ts";

const platform = /* @__PURE__ */ platformOf({
  module: () => Promise.resolve(compiled),
  udp: undefined,
  fetch: () => (url, init) => fetch(url, init),
  socket: () => platformSocket(RPC_SUBPROTOCOL),
  upgrade: acceptPair,
});

function acceptPair(): Upgraded {
  const { 0: client, 1: server } = new WebSocketPair();
  // It does not hibernate: a replica that forgot its sessions would have to reject calls that are under way.
  server.accept();
  const response = answerWith(client as NativeSocket, { "sec-websocket-protocol": RPC_SUBPROTOCOL });
  return { socket: server as unknown as Socket, response };
}

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
