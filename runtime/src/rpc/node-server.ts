import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { fieldsOf, urlOf } from "../transports/node-request.ts";
import { acceptUpgrades, refuseUpgrade } from "../transports/upgrades.ts";
import type { Socket } from "../transports/websocket.ts";
import { MAX_BODY } from "./limits.ts";
import { RpcServer } from "./server.ts";
import type { Upgrade, Upgraded } from "./websocket-binding.ts";
import { RPC_SUBPROTOCOL } from "./websocket-protocol.ts";

/** A replica of a service in Node, whose HTTP servers leave WebSockets to listeners of their own. */
export class NodeRpcServer extends RpcServer {
  readonly #closers: (() => void)[] = [];

  /** Answers calls over WebSocket, too, at a path of a server; `fetch` answers those over HTTP. */
  attach(server: Server, path: string): void {
    const sockets = new WebSocketServer({
      noServer: true,
      maxPayload: MAX_BODY,
      perMessageDeflate: false,
      handleProtocols: () => RPC_SUBPROTOCOL,
    });
    const stop = acceptUpgrades(server, path, (incoming, connection, head) =>
      this.#accept(sockets, incoming, connection, head),
    );
    this.#closers.push(stop, () => sockets.close());
  }

  override close(): void {
    for (const close of this.#closers.splice(0)) close();
    super.close();
  }

  async #accept(
    sockets: WebSocketServer,
    incoming: IncomingMessage,
    connection: Duplex,
    head: Buffer,
  ): Promise<void> {
    // It may break before there is a socket that hears of it.
    connection.on("error", () => connection.destroy());
    let isAnswered = false;
    const upgrade: Upgrade = () => {
      isAnswered = true;
      return upgraded(sockets, incoming, connection, head);
    };
    const request = new Request(urlOf(incoming), { headers: fieldsOf(incoming) });
    const response = await this.fetch(request, { incoming, upgrade });
    if (isAnswered) return;
    const later = response.headers.get("retry-after");
    const fields = later === null ? "" : `retry-after: ${later}\r\n`;
    refuseUpgrade(connection, response.status, fields, await response.text());
  }
}

/** Makes a socket of a connection; throws when `ws` has refused the handshake. */
function upgraded(
  sockets: WebSocketServer,
  incoming: IncomingMessage,
  connection: Duplex,
  head: Buffer,
): Upgraded {
  const accepted: WebSocket[] = [];
  sockets.handleUpgrade(incoming, connection, head, (socket) => {
    accepted.push(socket);
  });
  const [socket] = accepted;
  if (socket === undefined) throw new TypeError("the handshake is none");
  return {
    socket: socket as unknown as Socket,
    response: new Response(null, { status: 204 }),
    // Before the listener of the socket, which has a whole message afterwards.
    onArriving: (hear) => connection.prependListener("data", (bytes: Uint8Array) => hear(bytes.length)),
  };
}
