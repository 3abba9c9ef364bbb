import { readFile } from "node:fs/promises";

import type { Task } from "../boundary/tasks.ts";

/** A primitive, called in a module of its own; one that works on bytes is told how many. */
export async function primitive(file: string, name: string, length: number): Promise<Task> {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(await readFile(file)), {});
  const work = exports[name];
  if (typeof work !== "function") throw new Error(`no primitive ${name}`);
  return (count) => {
    work(count, length);
  };
}
