/**
 * A replica in Deno, over HTTP, WebSocket and UDP, with a router in front of it. Prints where they answer:
 *
 *     program.ts NAME KEY PORT
 */
import process from "node:process";
import { serve } from "selfsame";
import { createRpcRouter } from "selfsame/rpc";

import { bytesOf, Replica } from "./echo.ts";

const [name = "", key = "", port] = process.argv.slice(2);
const replica = new Replica(name, key, true);
const { address } = await replica.server.listenUdp({ host: "127.0.0.1", port: 0 });
const router = createRpcRouter({ routerKey: bytesOf(key), servers: [address] });
const routed = await router.listenUdp({ host: "127.0.0.1", port: 0 });
await serve({ fetch: (request) => replica.fetch(request), port: Number(port), hostname: "127.0.0.1" });
console.log(JSON.stringify({ url: `http://127.0.0.1:${port}/rpc`, udp: address, router: routed.address }));
process.stdin.on("end", () => process.exit(0)).resume();
