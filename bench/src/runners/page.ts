// The core in a browser's page: `bench(task, count)` returns the milliseconds that it took.
import { boundaryTask, compileTask, type Task } from "../boundary/tasks.ts";

const wasm = new Uint8Array(await (await fetch("/core.wasm")).arrayBuffer());
const core = await WebAssembly.compile(wasm);
const tasks = new Map<string, Task>();

function make(name: string): Task {
  const task =
    name === "compile" || name === "cold" ? compileTask(wasm, name === "cold") : boundaryTask(name, core);
  if (task === undefined) throw new Error(`no task ${name}`);
  return task;
}

async function bench(name: string, count: number): Promise<number> {
  const task = tasks.get(name) ?? make(name);
  tasks.set(name, task);
  const before = performance.now();
  await task(count);
  return performance.now() - before;
}

Object.assign(globalThis, { bench });
