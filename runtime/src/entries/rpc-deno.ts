import type { RpcClient, RpcClientOptions } from "../rpc/client.ts";
import type { RpcServer, RpcServerOptions } from "../rpc/server.ts";
import { bindUdp, UdpWay } from "../rpc/udp.ts";
import { checkedFetch } from "../transports/checked-fetch.ts";
import { deno } from "../transports/deno.ts";
import { rpcOf } from "./rpc-common.ts";

export * from "./rpc-common.ts";

const rpc = /* @__PURE__ */ rpcOf({
  module: () =>
    deno()
      .readFile(new URL("../../core/rpc.wasm", import.meta.url))
      .then((bytes) => WebAssembly.compile(bytes)),
  udp: { way: (host, options) => new UdpWay(host, options), bind: bindUdp },
  fetch: checkedFetch,
});

/** The module of the RPC, which is loaded and compiled once, when it is first asked for. */
export const rpcModule: () => Promise<WebAssembly.Module> = () => rpc.rpcModule();

/** Makes a client, which calls services by name. */
export const createRpcClient: (options: RpcClientOptions) => RpcClient = (options) =>
  rpc.createRpcClient(options);

/** Makes a server: a replica of a service. */
export const createRpcServer: (options: RpcServerOptions) => RpcServer = (options) =>
  rpc.createRpcServer(options);
