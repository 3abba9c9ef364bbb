/**
 * A member that answers as the cases say, and makes their requests. Prints where it is told to:
 *
 *     member.ts '{"network", "name", "port", "bootstrap"}'
 *     curl -d '{"method", "url", "headers"}' http://127.0.0.1:PORT/      in a session of the mesh, or by RPC at /rpc
 */
import process from "node:process";
import { serve } from "selfsame";
import { createRpcClient, createRpcServer } from "selfsame/rpc";

import { joinAt } from "../lib/member.ts";
import type { MemberSettings } from "../lib/runtimes.ts";
import { DATAGRAMS, isFor, type Order, Probe, perform, REPLICA } from "./probe.ts";

const UNOWNED = { unowned: true } as const;

const settings = JSON.parse(process.argv[2] ?? "") as MemberSettings;
const { name, port } = settings;
const mesh = await joinAt(settings);
const client = createRpcClient({ mesh, lookup: UNOWNED });
const probe = new Probe();
const server = createRpcServer({
  ...REPLICA,
  network: settings.network,
  service: name,
  fetch: (request, { caller }) => probe.answer(request, caller),
});
const handler = mesh.handler(async (request: Request) => {
  const order = (await request.json()) as Order;
  const inSession = (url: string, init: RequestInit): Promise<Response> =>
    mesh.fetch(url, { ...init, ...UNOWNED });
  const byRpc = (url: string, init: RequestInit): Promise<Response> => client.fetch(url, init);
  return Response.json(await perform(isFor(request, "/rpc") ? byRpc : inSession, order));
});
await serve({
  fetch: (request, info) =>
    isFor(request, DATAGRAMS) ? server.fetch(request, info) : handler(request, info),
  port,
  hostname: "127.0.0.1",
});
const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
const tickets = server.tickets(address, `http://127.0.0.1:${port}${DATAGRAMS}`);
await mesh.serve(name, tickets, UNOWNED);
console.log(JSON.stringify({ id: mesh.id, url: `http://127.0.0.1:${port}` }));
process.stdin.on("end", () => process.exit(0)).resume();
