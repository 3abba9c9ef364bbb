// The core in Deno: `deno run --allow-read deno.ts CORE.wasm`, then tasks as lines.
import { readFile } from "node:fs/promises";
import process from "node:process";

import { boundaryTask, compileTask } from "../boundary/tasks.ts";
import { serveLines } from "./lines.ts";

const [corePath = ""] = process.argv.slice(2);
const wasm = new Uint8Array(await readFile(corePath));
const core = new WebAssembly.Module(wasm);

await serveLines(async (name) => {
  const task =
    name === "compile" || name === "cold" ? compileTask(wasm, name === "cold") : boundaryTask(name, core);
  if (task === undefined) throw new Error(`no task ${name}`);
  return task;
});
