import * as http from "node:http";
import * as https from "node:https";
import { isIPv6, type LookupFunction } from "node:net";
import { Readable } from "node:stream";
import { type Dialler, MAX_FRAME, type PathHost } from "../driver/paths.ts";
import { detach } from "../guard.ts";
import { ExchangeDialler, type Fetch } from "./exchange-dial.ts";
import { type DialOptions, Permission, placeOfUrl } from "./place.ts";
import { SUBPROTOCOL } from "./protocol.ts";
import { TcpDialler } from "./tcp.ts";
import { UdpDialler } from "./udp/dial.ts";
import { type FindSocket, type Socket, WebSocketDialler } from "./websocket.ts";
import { WebSocket } from "./ws.ts";

/** Idle connections wait so long for the next POST of their path, which follows at once: names, and so servers, are free. */
const IDLE_MS = 5_000;
const KEPT: http.AgentOptions = { keepAlive: true, timeout: IDLE_MS };

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
  // The process's others know nothing of what may be dialled.
  readonly #http: http.Agent = new http.Agent(KEPT);
  readonly #https: https.Agent = new https.Agent(KEPT);

  constructor(options: DialOptions) {
    this.#permission = new Permission(this.schemes, options);
  }

  dial(dial: number, address: string, host: PathHost): void {
    const place = placeOfUrl(new URL(address));
    const dialled = this.#permission.resolve(place).then(
      (ips) => new ExchangeDialler(() => this.#fetch(lookupOf(ips))).dial(dial, address, host),
      (error: Error) => host.dialFailed(dial, `${address}: ${error.message}`),
    );
    detach("a dial", dialled);
  }

  #fetch(lookup: LookupFunction): Fetch {
    return (text, { method = "POST", headers, body, signal }) => {
      const url = new URL(text);
      const isTls = url.protocol === "https:";
      const options = {
        method,
        headers: headers as http.OutgoingHttpHeaders,
        lookup,
        agent: isTls ? this.#https : this.#http,
        ...(signal ? { signal } : {}),
      };
      return answerOf((isTls ? https : http).request(url, options), body as Uint8Array);
    };
  }
}

function answerOf(request: http.ClientRequest, body: Uint8Array): Promise<Response> {
  return new Promise((resolve, reject) => {
    request.once("response", (answer) => {
      // Whoever reads the body hears of it as well.
      answer.on("error", () => undefined);
      try {
        resolve(new Response(Readable.toWeb(answer) as ReadableStream, { status: answer.statusCode ?? 0 }));
      } catch (error) {
        // A status that has no body, or none at all.
        request.destroy();
        reject(error);
      }
    });
    request.on("error", reject);
    request.once("close", () => reject(new Error("the connection was closed before the answer")));
    request.end(body);
  });
}

/** Gives the IP addresses that were found and checked, in place of what the name may lead to by now. */
function lookupOf(ips: readonly string[]): LookupFunction {
  const found = ips.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  return (_, options, give) => {
    if (options.all === true) give(null, found);
    else give(null, found[0]?.address ?? "", found[0]?.family);
  };
}
