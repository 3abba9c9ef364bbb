// The core in Node, its primitives, and js-libp2p: `node node.ts CORE.wasm [PRIMITIVES.wasm]`, then tasks as lines.
import { readFile } from "node:fs/promises";
import process from "node:process";

import { memoryOfNodes } from "../boundary/memory.ts";
import { Pair } from "../boundary/pair.ts";
import { boundaryTask, compileTask, repeat, type Task } from "../boundary/tasks.ts";
import { awaitedMessages, handshakes, synchronousMessages } from "./libp2p.ts";
import { type Answering, serveLines } from "./lines.ts";
import { primitive } from "./primitives.ts";

const [corePath = "", primitivesPath = ""] = process.argv.slice(2);
const wasm = new Uint8Array(await readFile(corePath));
const core = new WebAssembly.Module(wasm);

async function make(name: string): Promise<Task | Answering> {
  const task = boundaryTask(name, core);
  if (task !== undefined) return task;
  const [work = "", detail = "", size = ""] = name.split("/");
  switch (work) {
    case "compile":
    case "cold":
      return compileTask(wasm, work === "cold");
    case "memory":
      return (count) => memoryOfNodes(core, count);
    case "handshake": {
      const pair = new Pair(core);
      return repeat(() => pair.handshake());
    }
    case "channel": {
      const pair = new Pair(core);
      pair.openStream();
      const length = Number(detail);
      return repeat(() => pair.message(length));
    }
    case "primitive":
      return primitive(primitivesPath, detail, Number(size));
    case "libp2p":
      if (detail === "handshake") return handshakes();
      return detail === "channel" ? awaitedMessages(Number(size)) : synchronousMessages(Number(size));
    default:
      throw new Error(`no task ${name}`);
  }
}

await serveLines(make);
