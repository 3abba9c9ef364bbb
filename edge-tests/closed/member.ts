/**
 * A member of a closed network in Node or Deno: `member.ts SETTINGS`. It calls a service when it is asked to, and takes a list of
 * revocations:
 *
 *     curl http://127.0.0.1:PORT/call/NAME
 *     curl http://127.0.0.1:PORT/revoke --data LIST
 */
import process from "node:process";
import { join, memory, serve } from "selfsame";

import { answering, callFrom } from "./answer.ts";
import { type ClosedSettings, joinOptions } from "./settings.ts";

const settings = JSON.parse(process.argv[2] ?? "") as ClosedSettings;
const { name, port, grant } = settings;
const url = `http://127.0.0.1:${port}`;
const address = [`${url.replace("http", "ws")}/.mesh`, `${url}/.mesh`];
const mesh = await join({ ...joinOptions(settings), address, storage: memory() });

const handler = mesh.handler(async (request: Request) => {
  const { pathname } = new URL(request.url);
  if (request.method !== "POST") return Response.json(await callFrom(mesh, pathname.slice("/call/".length)));
  await mesh.revoke(await request.text());
  return new Response();
});
await serve({ fetch: handler, port, hostname: "127.0.0.1" });
await mesh.serve(name, answering(name), { grant });
console.log(JSON.stringify({ id: mesh.id, url }));
process.stdin.on("end", () => process.exit(0)).resume();
