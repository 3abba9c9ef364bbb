// A leaf in a page that serves `page` over WebSocket, and opens WebSockets when whoever opened the page calls `talkTo`.
import { join, memory } from "selfsame";

import { talkingService } from "./answer.ts";
import { type Talk, talk } from "./talk.ts";

const UNOWNED = { unowned: true } as const;

const query = new URLSearchParams(location.search);
const mesh = await join({
  network: query.get("network") ?? "",
  bootstrap: query.get("bootstrap") ?? "",
  storage: memory(),
  allowPrivate: true,
});
await mesh.serve("page", talkingService(), UNOWNED);

function talkTo(service: string): Promise<Talk> {
  return talk((protocols) => mesh.webSocket(`wss://${service}.mesh/`, protocols, UNOWNED));
}

Object.assign(globalThis, { talkTo });
document.title = "ready";
