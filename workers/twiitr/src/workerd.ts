/**
 * Runs the Worker and its Durable Object in a local workerd, as a program of its own. It prints its id and address as
 * one line of JSON when it can be reached, and ends with its standard input.
 *
 *     node workerd.ts BUNDLE-FOLDER DATA-FOLDER PORT BINDINGS-FILE [key]
 *
 * With `key` it prints the public key of the node in place of that, which then joins no ring.
 *
 * The bindings are a file of JSON, as there are secrets among them, which no argument may hold.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Miniflare } from "miniflare";

import { localWorker } from "./local-worker.ts";

const [bundle, data, port, bindings, wanted] = process.argv.slice(2);
if (!bundle || !data || !port || !bindings) {
  process.stderr.write("usage: workerd.ts BUNDLE-FOLDER DATA-FOLDER PORT BINDINGS-FILE [key]\n");
  process.exit(2);
}

/** Reads the one script of the bundle, which comes first, and the WebAssembly modules beside it. */
function readModules(folder: string): Record<string, string | Uint8Array<ArrayBuffer>> {
  const names = readdirSync(folder);
  const script = names.filter((name) => name.endsWith(".js"));
  const wasm = names.filter((name) => name.endsWith(".wasm"));
  return {
    ...Object.fromEntries(script.map((name) => [name, readFileSync(join(folder, name), "utf8")])),
    ...Object.fromEntries(wasm.map((name) => [name, new Uint8Array(readFileSync(join(folder, name)))])),
  };
}

const miniflare = new Miniflare(
  localWorker({
    modules: readModules(bundle),
    port: Number(port),
    bindings: JSON.parse(readFileSync(bindings, "utf8")) as Record<string, string>,
    durableObjects: { NODE: "Node" },
    data,
  }),
);

const url = await miniflare.ready;
const address = url.href.replace(/\/$/, "");
if (wanted === "key") {
  tell({ key: await (await ask("key")).text() });
} else {
  // The Durable Object starts with the first request, and joins the ring.
  const { id } = (await (await ask("status")).json()) as { id: string };
  tell({ id, url: address });
}

for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stop().catch(console.error));
process.stdin.on("end", () => stop().catch(console.error)).resume();

async function ask(path: string): Promise<Response> {
  const response = await fetch(`${address}/${path}`);
  if (!response.ok) throw new Error(`the Worker answers ${response.status}: ${await response.text()}`);
  return response;
}

function tell(message: Readonly<Record<string, string>>): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

let isStopping = false;

async function stop(): Promise<void> {
  if (isStopping) return;
  isStopping = true;
  await miniflare.dispose();
  process.exit(0);
}
