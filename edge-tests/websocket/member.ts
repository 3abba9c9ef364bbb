/**
 * A member that serves its name over WebSocket, and opens WebSockets when it is asked to. Prints its id:
 *
 *     member.ts '{"network", "name", "port", "bootstrap"}'
 *     curl http://127.0.0.1:PORT/NAME
 */
import process from "node:process";
import { join, memory, serve } from "selfsame";

import { talkingService } from "./answer.ts";
import { talk } from "./talk.ts";

/** How a member is started. */
export type MemberSettings = { network: string; name: string; port: number; bootstrap: string };

const UNOWNED = { unowned: true } as const;

const { network, name, port, bootstrap } = JSON.parse(process.argv[2] ?? "") as MemberSettings;
const mesh = await join({
  network,
  bootstrap,
  address: [`ws://127.0.0.1:${port}/.mesh`, `http://127.0.0.1:${port}/.mesh`],
  storage: memory(),
  allowPrivate: true,
});

const handler = mesh.handler(async (request: Request) => {
  const service = new URL(request.url).pathname.slice(1);
  return Response.json(
    await talk((protocols) => mesh.webSocket(`wss://${service}.mesh/`, protocols, UNOWNED)),
  );
});
await serve({ fetch: handler, port, hostname: "127.0.0.1" });
await mesh.serve(name, talkingService(), UNOWNED);
console.log(JSON.stringify({ id: mesh.id, url: `http://127.0.0.1:${port}` }));
process.stdin.on("end", () => process.exit(0)).resume();
