import type { RemoteInfo, Socket } from "node:dgram";
import { MeshError } from "../codec/code.ts";
import { guarded, reasonOf } from "../guard.ts";
import { isPublic } from "../transports/public-address.ts";
import { boundUdp, createUdp, makeRoom } from "../transports/udp/socket.ts";
import type { RpcAddress } from "./address.ts";
import { addressOf, endpointOf, textOfIpPort } from "./endpoint.ts";
import { UDP_DATAGRAM } from "./limits.ts";
import type { DatagramHandler, UdpPlace, UdpPort } from "./platform.ts";
import type { Way, WayHost } from "./way.ts";

/** Carries the datagrams of a client over UDP, on a socket for each family that it needs. */
export class UdpWay implements Way {
  readonly datagramBytes: number = UDP_DATAGRAM;
  readonly #host: WayHost;
  readonly #allowPrivate: boolean;
  readonly #sockets: Map<4 | 6, Socket> = new Map();
  #isBusy = false;
  #isClosed = false;

  constructor(host: WayHost, { allowPrivate }: { readonly allowPrivate: boolean }) {
    this.#host = host;
    this.#allowPrivate = allowPrivate;
  }

  endpointOf(address: RpcAddress): Uint8Array {
    return endpointOf(address.way === "udp" ? address.place : { ip: "", port: 0 });
  }

  textOf(endpoint: Uint8Array): string {
    return textOfIpPort(addressOf(endpoint));
  }

  send(target: Uint8Array, datagram: Uint8Array): void {
    if (this.#isClosed) return;
    const { ip, port } = addressOf(target);
    // Routers and servers name others to go to.
    if (!this.#allowPrivate && !isPublic(ip)) return;
    const family = ip.includes(":") ? 6 : 4;
    try {
      // The first datagram of a socket binds it, for which Deno needs a permission. A router may name a port that is none.
      this.#socketFor(family).send(datagram, port, ip);
    } catch (error) {
      const why = reasonOf(error);
      const place = this.textOf(target);
      const forbidden = new MeshError("ForbiddenAddress", `nothing can be sent to ${place}: ${why}`);
      queueMicrotask(() => this.#host.forbidden(place, forbidden));
    }
  }

  busy(until_ms: number | undefined): void {
    this.#isBusy = until_ms !== undefined;
    for (const socket of this.#sockets.values()) this.#hold(socket);
  }

  close(): void {
    this.#isClosed = true;
    for (const socket of this.#sockets.values()) socket.close();
    this.#sockets.clear();
  }

  #socketFor(family: 4 | 6): Socket {
    const known = this.#sockets.get(family);
    if (known !== undefined) return known;
    const socket = createUdp(family);
    socket.once("listening", () => makeRoom(socket));
    hear(socket, (source, bytes) => this.#host.received(source, bytes));
    this.#sockets.set(family, socket);
    this.#hold(socket);
    return socket;
  }

  /** Only calls keep the process alive. */
  #hold(socket: Socket): void {
    if (this.#isBusy) socket.ref();
    else socket.unref();
  }
}

/** Binds a port of UDP. */
export async function bindUdp({ host = "0.0.0.0", port }: UdpPlace, take: DatagramHandler): Promise<UdpPort> {
  const socket = await boundUdp(host, port);
  hear(socket, take);
  let isClosed = false;
  const bound = socket.address();
  return {
    address: textOfIpPort({ ip: bound.address, port: bound.port }),
    send: (target, datagram) => {
      const to = addressOf(target);
      if (!isClosed && to.port !== 0) socket.send(datagram, to.port, to.ip);
    },
    close: () => {
      if (!isClosed) socket.close();
      isClosed = true;
    },
  };
}

function hear(socket: Socket, take: DatagramHandler): void {
  const received = ({ address, port }: RemoteInfo, bytes: Uint8Array): void =>
    take(endpointOf({ ip: address, port }), bytes);
  socket.on(
    "message",
    guarded("a datagram", (bytes: Uint8Array, from: RemoteInfo) => received(from, bytes)),
  );
  // What could not be sent is lost, as it may be anywhere.
  socket.on("error", () => undefined);
}
