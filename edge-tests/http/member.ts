/**
 * A member that answers as the cases say, and makes their requests. Prints where it is told to:
 *
 *     member.ts '{"network", "name", "port", "bootstrap"}'
 *     curl -d '{"method", "url", "headers"}' http://127.0.0.1:PORT/
 */
import process from "node:process";
import { serve } from "selfsame";

import { joinAt } from "../lib/member.ts";
import type { MemberSettings } from "../lib/runtimes.ts";
import { type Order, Probe, perform } from "./probe.ts";

const UNOWNED = { unowned: true } as const;

const settings = JSON.parse(process.argv[2] ?? "") as MemberSettings;
const { name, port } = settings;
const mesh = await joinAt(settings);
const handler = mesh.handler(async (request: Request) => {
  const order = (await request.json()) as Order;
  return Response.json(await perform((url, init) => mesh.fetch(url, { ...init, ...UNOWNED }), order));
});
await serve({ fetch: handler, port, hostname: "127.0.0.1" });
const probe = new Probe();
await mesh.serve(name, (request, { caller }) => probe.answer(request, caller), UNOWNED);
console.log(JSON.stringify({ id: mesh.id, url: `http://127.0.0.1:${port}` }));
process.stdin.on("end", () => process.exit(0)).resume();
