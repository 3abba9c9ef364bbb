import { RpcClient, type RpcClientOptions } from "../rpc/client.ts";
import { MAX_BODY } from "../rpc/limits.ts";
import { platformOf } from "../rpc/platform.ts";
import { PreSharedKey, type PreSharedKeyOptions } from "../rpc/pre-shared-key.ts";
import { RpcRouter, type RpcRouterOptions } from "../rpc/router.ts";
import { RpcServer, type RpcServerOptions } from "../rpc/server.ts";
import { bindUdp, UdpWay } from "../rpc/udp.ts";
import { RPC_SUBPROTOCOL } from "../rpc/websocket-protocol.ts";
import { checkedFetch } from "../transports/checked-fetch.ts";
import { checkedSocket } from "../transports/checked-socket.ts";
import { deno } from "../transports/deno.ts";

export { RpcRouter, type RpcRouterOptions } from "../rpc/router.ts";
export * from "./rpc-common.ts";

const platform = /* @__PURE__ */ platformOf({
  module: () =>
    deno()
      .readFile(new URL("../../core/rpc.wasm", import.meta.url))
      .then((bytes) => WebAssembly.compile(bytes)),
  udp: { way: (host, options) => new UdpWay(host, options), bind: bindUdp },
  fetch: checkedFetch,
  socket: (options) => checkedSocket(options, { protocol: RPC_SUBPROTOCOL, maxPayload: MAX_BODY }),
  // The RPC has a keep-alive of its own.
  upgrade: (request) => deno().upgradeWebSocket(request, { protocol: RPC_SUBPROTOCOL, idleTimeout: 0 }),
});

/** The module of the RPC, which is loaded and compiled once, when it is first asked for. */
export const rpcModule: () => Promise<WebAssembly.Module> = () => platform.module();

/** Makes a client, which calls services by name. */
export const createRpcClient: (options: RpcClientOptions) => RpcClient = (options) =>
  new RpcClient(options, platform);

/** Makes a server: a replica of a service. */
export const createRpcServer: (options: RpcServerOptions) => RpcServer = (options) =>
  new RpcServer(options, platform);

/** Makes a router, which picks the replica of each call. */
export const createRpcRouter: (options: RpcRouterOptions) => RpcRouter = (options) =>
  new RpcRouter(options, platform);

/** Makes tickets for a client without a mesh, out of the secrets of the services that it calls. */
export const preSharedKey: (options: PreSharedKeyOptions) => PreSharedKey = (options) =>
  new PreSharedKey(options, platform.module);
