/**
 * A member in a local workerd that is flooded. Prints its id.
 *
 *     workerd.ts '{"network", "name", "ip", "bootstrap"}' FOLDER
 */
import process from "node:process";

import { startWorkerd } from "../lib/replicas.ts";
import { type MemberSettings, PORTS } from "./ports.ts";

const [settings = "", folder = ""] = process.argv.slice(2);
const { ip } = JSON.parse(settings) as MemberSettings;
const url = `ws://${ip}:${PORTS.ws}`;
const bindings = { SETTINGS: settings, URL: url };
await startWorkerd("floods/worker.ts", folder, { host: ip, port: PORTS.ws, bindings });
// The Durable Object starts with the first request.
const { id } = (await (await fetch(url.replace("ws:", "http:"))).json()) as { id: string };
console.log(JSON.stringify({ id, url }));
process.stdin.on("end", () => process.exit(0)).resume();
