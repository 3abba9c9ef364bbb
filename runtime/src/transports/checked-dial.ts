import { type Dialler, MAX_FRAME, type PathHost } from "../driver/paths.ts";
import { detach } from "../guard.ts";
import { Requester } from "./checked-fetch.ts";
import { checkedSocket } from "./checked-socket.ts";
import { ExchangeDialler } from "./exchange-dial.ts";
import { type DialOptions, Permission, placeOfUrl } from "./place.ts";
import { SUBPROTOCOL } from "./protocol.ts";
import { TcpDialler } from "./tcp.ts";
import { UdpDialler } from "./udp/dial.ts";
import { WebSocketDialler } from "./websocket.ts";

/** Diallers for where `node:net` is: each connects to an IP address that it has checked, and to no other. */
export function checkedDiallers(options: DialOptions): Dialler[] {
  return [
    new TcpDialler(options),
    new UdpDialler(options),
    new WebSocketDialler(checkedSocket(options, { protocol: SUBPROTOCOL, maxPayload: MAX_FRAME })),
    new CheckedExchangeDialler(options),
  ];
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
