/**
 * Runs the notes of `workers/apps` in a local workerd, as a program of its own: `workerd.ts BUNDLE-FOLDER DATA-FOLDER PORT
 * SETTINGS-JSON`. It prints its address as JSON when it can be reached, and ends with its standard input.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { Miniflare } from "miniflare";
import { localWorker } from "selfsame-twiitr/local-worker";

const [bundle = "", data = "", port = "", settings = ""] = process.argv.slice(2);
const miniflare = new Miniflare(
  localWorker({
    modules: {
      "worker.js": readFileSync(join(bundle, "worker.js"), "utf8"),
      "capsule.wasm": new Uint8Array(readFileSync(join(bundle, "capsule.wasm"))),
    },
    port: Number(port),
    bindings: { SETTINGS: settings },
    durableObjects: { NOTES: "Notes" },
    data,
  }),
);
await miniflare.ready;
console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }));
process.stdin.on("end", () => void miniflare.dispose().then(() => process.exit(0))).resume();
