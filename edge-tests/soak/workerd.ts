/**
 * Runs a Worker of a soak test in a local workerd, perhaps with an inspector: `workerd.ts BUNDLE-FOLDER DATA-FOLDER PORT
 * BINDINGS-FILE INSPECTOR-PORT`. It prints its id and address as JSON when it can be reached, and ends with its standard input.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { Miniflare } from "miniflare";
import { localWorker } from "selfsame-twiitr/local-worker";

const [bundle = "", data = "", port = "", bindings = "", inspector = "0"] = process.argv.slice(2);
// The one script comes first.
const names = readdirSync(bundle).toSorted((one, other) => other.localeCompare(one));
const ofKind = (ending: string): string[] => names.filter((name) => name.endsWith(ending));
const scripts = ofKind(".js").map((name) => [name, readFileSync(join(bundle, name), "utf8")] as const);
const wasm = ofKind(".wasm").map((name) => [name, new Uint8Array(readFileSync(join(bundle, name)))] as const);
const miniflare = new Miniflare({
  ...localWorker({
    modules: Object.fromEntries([...scripts, ...wasm]),
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
