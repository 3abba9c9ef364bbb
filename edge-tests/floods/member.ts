/**
 * A member of Node or Deno that is flooded. Prints its id.
 *
 *     member.ts '{"network", "name", "ip", "bootstrap"}'
 */
import process from "node:process";
import { join, memory } from "selfsame";

import { type MemberSettings, PORTS } from "./ports.ts";

const { network, name, ip, bootstrap } = JSON.parse(process.argv[2] ?? "") as MemberSettings;
const mesh = await join({
  network,
  bootstrap,
  listen: [`ws://${ip}:${PORTS.ws}`, `tcp://${ip}:${PORTS.tcp}`, `udp://${ip}:${PORTS.udp}`],
  address: `ws://${ip}:${PORTS.ws}/.mesh`,
  storage: memory(),
});
await mesh.serve(name, async (request) => new Response(await request.text()), { unowned: true });
console.log(JSON.stringify({ id: mesh.id, url: `ws://${ip}:${PORTS.ws}` }));
process.stdin.on("end", () => process.exit(0)).resume();
