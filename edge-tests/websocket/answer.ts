import { type Handler, upgradeWebSocket } from "selfsame";

import { accept, PROTOCOL } from "./talk.ts";

/** A service outside workerd: speaks on sockets, and tells at `/ended` how the last one was closed. */
export function talkingService(): Handler {
  let ended = "";
  return (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/ended") return new Response(ended);
    if (pathname === "/refused") return new Response("not you", { status: 403 });
    // What a program beside the sidecar offers is not for a service that sends messages.
    if (request.headers.has("sec-websocket-extensions")) return new Response(null, { status: 400 });
    const { socket, response } = upgradeWebSocket(request, { protocol: PROTOCOL });
    accept(socket, (how) => {
      ended = how;
    });
    return response;
  };
}
