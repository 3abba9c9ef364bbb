/**
 * Runs the Worker of a soak test in a local workerd, perhaps with an inspector: `workerd.ts BUNDLE-FOLDER DATA-FOLDER PORT
 * BINDINGS-FILE INSPECTOR-PORT`. It prints its id and address as JSON when it can be reached, and ends with its standard input.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { Miniflare } from "miniflare";
import { localWorker } from "selfsame-twiitr/local-worker";

const [bundle = "", data = "", port = "", bindings = "", inspector = "0"] = process.argv.slice(2);
const read = (name: string): Uint8Array<ArrayBuffer> => new Uint8Array(readFileSync(join(bundle, name)));
const miniflare = new Miniflare({
  ...localWorker({
    modules: {
      "worker.js": readFileSync(join(bundle, "worker.js"), "utf8"),
      "core.wasm": read("core.wasm"),
      "capsule.wasm": read("capsule.wasm"),
    },
    port: Number(port),
    bindings: JSON.parse(readFileSync(bindings, "utf8")) as Record<string, string>,
    durableObjects: { NODE: "Node" },
    data,
  }),
  ...(inspector === "0" ? {} : { inspectorPort: Number(inspector) }),
});
await miniflare.ready;
const url = `http://127.0.0.1:${port}`;
// The Durable Object starts with the first request, and joins the ring.
const { id } = (await (await fetch(`${url}/status`)).json()) as { id: string };
console.log(JSON.stringify({ id, url }));

const end = (): void => {
  miniflare.dispose().then(
    () => process.exit(0),
    () => process.exit(1),
  );
};
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, end);
process.stdin.once("end", end).resume();
