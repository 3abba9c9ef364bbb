/**
 * The app on Node and Deno: `server.ts PORT FOLDER SETTINGS-JSON`. It prints its address as JSON when it can be reached, and
 * ends with its standard input.
 */
import { join } from "node:path";
import process from "node:process";
import { serve, sqlite } from "selfsame";

import { openPlace, type PlaceSettings } from "./place.ts";

const [port = "", folder = "", settings = ""] = process.argv.slice(2);
const app = await openPlace(JSON.parse(settings) as PlaceSettings, {
  replica: sqlite(join(folder, "replica.db")),
  writer: sqlite(join(folder, "writer.db")),
});
await serve({ fetch: app.fetch, port: Number(port), hostname: "127.0.0.1" });
console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }));
process.stdin.on("end", () => process.exit(0)).resume();
