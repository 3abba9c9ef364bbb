/**
 * A member that serves its name over WebSocket, and opens WebSockets when it is asked to. Prints its id:
 *
 *     member.ts '{"network", "name", "port", "bootstrap"}'
 *     curl http://127.0.0.1:PORT/NAME
 */
import process from "node:process";
import { serve } from "selfsame";

import { joinAt } from "../lib/member.ts";
import type { MemberSettings } from "../lib/runtimes.ts";
import { talkingService } from "./answer.ts";
import { talk } from "./talk.ts";

const UNOWNED = { unowned: true } as const;

const settings = JSON.parse(process.argv[2] ?? "") as MemberSettings;
const { name, port } = settings;
const mesh = await joinAt(settings);

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
