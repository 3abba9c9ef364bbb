import type { Link, Path, PathHost } from "../driver/paths.ts";
import { offersSubprotocol, PING, PONG, SUBPROTOCOL } from "../transports/protocol.ts";
import { closeSocket } from "../transports/websocket.ts";

/** What stays with a socket while the object's memory is lost; 2,048 bytes at most with what the platform adds. */
interface Attachment {
  readonly path: number;
  readonly remote: string;
  readonly snapshot: Uint8Array;
}

/** Longest address kept: an IPv6 address has 45 characters. */
const MAX_REMOTE = 64;

/** The hibernating WebSockets of a Durable Object. */
export class Sockets {
  readonly #ctx: DurableObjectState;
  readonly #host: PathHost;
  readonly #paths: Map<number, Path> = new Map();

  constructor(ctx: DurableObjectState, host: PathHost) {
    this.#ctx = ctx;
    this.#host = host;
  }

  /** Brings the sockets that survived back to the core, each with its snapshot. */
  resume(): void {
    // A text ping is answered by the platform: it does not wake the object.
    this.#ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    for (const socket of this.#ctx.getWebSockets()) {
      const attachment = read(socket);
      if (attachment === undefined) closeSocket(socket, 1011, "the path is unknown");
      else this.#paths.set(attachment.path, this.#host.resume(this.#link(socket, attachment), attachment));
    }
  }

  /** Accepts the socket of a peer. */
  accept(request: Request): Response {
    if (!offersSubprotocol(request.headers.get("sec-websocket-protocol"))) {
      return new Response(`the subprotocol is ${SUBPROTOCOL}\n`, { status: 400 });
    }
    const { 0: client, 1: server } = new WebSocketPair();
    const remote = remoteOf(request);
    this.#ctx.acceptWebSocket(server);
    // The number is known only when the path is open.
    const held = { path: 0, remote };
    const path = this.#host.open(this.#link(server, held), { dial: 0, kind: "Hibernating", remote });
    held.path = path.number;
    this.#paths.set(path.number, path);
    write(server, { path: path.number, remote, snapshot: new Uint8Array() });
    return new Response(null, {
      status: 101,
      webSocket: client,
      headers: { "sec-websocket-protocol": SUBPROTOCOL },
    });
  }

  /** A message arrived on a socket. */
  message(socket: WebSocket, message: string | ArrayBuffer): void {
    const path = this.#pathOf(socket);
    if (path === undefined) return closeSocket(socket, 1011, "the path is unknown");
    if (message instanceof ArrayBuffer) path.received(new Uint8Array(message));
    else if (message === PING) socket.send(PONG);
    else if (message !== PONG) path.close(1003, "frames are binary");
  }

  /** A socket closed by itself or failed. */
  closed(socket: WebSocket): void {
    const path = this.#pathOf(socket);
    if (path === undefined) return;
    this.#paths.delete(path.number);
    path.closed();
  }

  #pathOf(socket: WebSocket): Path | undefined {
    const attachment = read(socket);
    return attachment && this.#paths.get(attachment.path);
  }

  #link(socket: WebSocket, held: Pick<Attachment, "path" | "remote">): Link {
    const close = (code: number, reason: string): void => {
      this.#paths.delete(held.path);
      closeSocket(socket, code, reason);
    };
    return {
      // workerd does not tell, and drops nothing.
      waitingBytes: 0,
      send: (frame) => socket.send(frame),
      close,
      abort: close,
      // A view would be kept with all of its buffer, which holds whatever else the core had to say.
      snapshot: (view) => write(socket, { path: held.path, remote: held.remote, snapshot: view.slice() }),
    };
  }
}

/** The peer's address, as Cloudflare's edge saw it. */
export function remoteOf(request: Request): string {
  return (request.headers.get("cf-connecting-ip") ?? "").slice(0, MAX_REMOTE);
}

function write(socket: WebSocket, attachment: Attachment): void {
  socket.serializeAttachment(attachment);
}

function read(socket: WebSocket): Attachment | undefined {
  const attachment: unknown = socket.deserializeAttachment();
  const isOurs =
    typeof attachment === "object" && attachment !== null && "path" in attachment && "snapshot" in attachment;
  return isOurs ? (attachment as Attachment) : undefined;
}
