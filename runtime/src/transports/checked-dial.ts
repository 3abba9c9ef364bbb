import { type Dialler, MAX_FRAME, type PathHost } from "../driver/paths.ts";
import { detach } from "../guard.ts";
import { lookupOf, Requester } from "./checked-fetch.ts";
import { ExchangeDialler } from "./exchange-dial.ts";
import { type DialOptions, Permission, placeOfUrl } from "./place.ts";
import { SUBPROTOCOL } from "./protocol.ts";
import { TcpDialler } from "./tcp.ts";
import { UdpDialler } from "./udp/dial.ts";
import { type FindSocket, type Socket, WebSocketDialler } from "./websocket.ts";
import { WebSocket } from "./ws.ts";

/** Diallers for where `node:net` is: each connects to an IP address that it has checked, and to no other. */
export function checkedDiallers(options: DialOptions): Dialler[] {
  return [
    new TcpDialler(options),
    new UdpDialler(options),
    new WebSocketDialler(checkedSocket(new Permission(["ws", "wss"], options))),
    new CheckedExchangeDialler(options),
  ];
}

/** Finds sockets of the package `ws`, as the platforms' own resolve names by themselves. They follow no redirect. */
function checkedSocket(permission: Permission): FindSocket {
  return async (url) => {
    const lookup = lookupOf(await permission.resolve(placeOfUrl(url)));
    const options = { lookup, maxPayload: MAX_FRAME, perMessageDeflate: false };
    return () => new WebSocket(url, SUBPROTOCOL, options) as unknown as Socket;
  };
}

/** Dials `https` and `http` through `node:http`, as the platforms' `fetch` resolves names by itself. It follows no redirect. */
class CheckedExchangeDialler implements Dialler {
  readonly schemes: readonly string[] = ["https", "http"];
  readonly #permission: Permission;
  readonly #requester: Requester = new Requester();

  constructor(options: DialOptions) {
    this.#permission = new Permission(this.schemes, options);
  }

  dial(dial: number, address: string, host: PathHost): void {
    const place = placeOfUrl(new URL(address));
    const dialled = this.#permission.resolve(place).then(
      (ips) => new ExchangeDialler(() => this.#requester.fetchAt(ips)).dial(dial, address, host),
      (error: Error) => host.dialFailed(dial, `${address}: ${error.message}`),
    );
    detach("a dial", dialled);
  }
}
