import type { Path, PathHost } from "../driver/paths.ts";
import { guarded } from "../guard.ts";
import { offersSubprotocol, SUBPROTOCOL } from "./protocol.ts";
import { carry, type Socket } from "./websocket.ts";

/** What Deno tells a fetch handler of a request's connection. */
export interface DenoInfo {
  /** The peer's address. */
  readonly remoteAddr?: { readonly hostname?: string };
}

/** Answers HTTP requests. */
export type DenoFetch = (request: Request, info?: DenoInfo) => Response | Promise<Response>;

/** A server that `Deno.serve` started. */
export interface DenoServer {
  /** Where it listens. */
  readonly addr: { readonly port: number };
  /** Stops it when its requests are answered. */
  shutdown(): Promise<void>;
}

/** The part of the namespace `Deno` that the package uses; declared here so that it needs no types of Deno. */
export interface DenoNamespace {
  serve(options: {
    port: number;
    hostname?: string;
    signal: AbortSignal;
    onListen: () => void;
    handler: (request: Request, info: DenoInfo) => Response | Promise<Response>;
  }): DenoServer;
  upgradeWebSocket(
    request: Request,
    options: { protocol: string; idleTimeout: number },
  ): { socket: Socket; response: Response };
  readFile(path: URL): Promise<Uint8Array<ArrayBuffer>>;
}

/** The namespace `Deno` of this process. */
export function deno(): DenoNamespace {
  return (globalThis as unknown as { Deno: DenoNamespace }).Deno;
}

/** Accepts the WebSocket of a peer. */
export function acceptSocket(request: Request, host: PathHost, remote: string): Response {
  if (!offersSubprotocol(request.headers.get("sec-websocket-protocol"))) {
    return new Response(`the subprotocol is ${SUBPROTOCOL}\n`, { status: 400 });
  }
  // The mesh has a keep-alive of its own.
  const { socket, response } = deno().upgradeWebSocket(request, { protocol: SUBPROTOCOL, idleTimeout: 0 });
  const open = (): Path => carry(socket, host, { dial: 0, kind: "Ordered", remote });
  socket.addEventListener("open", guarded("a socket", open));
  return response;
}
