import type { Fetch } from "../transports/exchange-dial.ts";
import type { FindSocket } from "../transports/websocket.ts";
import type { Way, WayHost } from "./way.ts";
import type { Upgrade } from "./websocket-binding.ts";

/** Takes a datagram that came from an endpoint. */
export type DatagramHandler = (source: Uint8Array, bytes: Uint8Array) => void;

/** A port of this machine. */
export interface UdpPlace {
  /** Address or name to listen at; all of IPv4 unless given. */
  readonly host?: string | undefined;
  /** The port; any free one if 0. */
  readonly port: number;
}

/** A bound port of UDP. */
export interface UdpPort {
  /** Address and port that it is bound to. */
  readonly address: string;
  /** Sends a datagram; one that does not leave is lost. */
  send(target: Uint8Array, datagram: Uint8Array): void;
  /** Gives the port back. */
  close(): void;
}

/** UDP where a platform has it. */
export interface UdpPlatform {
  /** Makes the way of a client. */
  readonly way: (host: WayHost, options: { readonly allowPrivate: boolean }) => Way;
  /** Binds the port of a server. */
  readonly bind: (place: UdpPlace, take: DatagramHandler) => Promise<UdpPort>;
}

/** What a platform gives the RPC. */
export interface RpcPlatform {
  /** The compiled rpc.wasm. */
  readonly module: () => Promise<WebAssembly.Module>;
  /** `undefined` in Workers and browsers. */
  readonly udp: UdpPlatform | undefined;
  /** Makes what sends requests to URLs that may be dialled. */
  readonly fetch: (options: { readonly allowPrivate: boolean }) => Fetch;
  /** Makes what dials WebSockets, with the subprotocol of the RPC, to URLs that may be dialled. */
  readonly socket: (options: { readonly allowPrivate: boolean }) => FindSocket;
  /** Accepts WebSockets in a fetch handler; `undefined` in Node and browsers. */
  readonly upgrade: Upgrade | undefined;
}

/** What a platform gives the RPC, with a module that is compiled once, when it is first asked for. */
export function platformOf({ module: compile, ...rest }: RpcPlatform): RpcPlatform {
  let compiled: Promise<WebAssembly.Module> | undefined;
  const module = (): Promise<WebAssembly.Module> => {
    compiled ??= compile();
    return compiled;
  };
  return { module, ...rest };
}
