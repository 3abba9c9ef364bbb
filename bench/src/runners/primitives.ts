import { readFile } from "node:fs/promises";

import type { Task } from "../boundary/tasks.ts";

/** A primitive of the handshake, called in a module of its own. */
export async function primitive(file: string, name: string): Promise<Task> {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(await readFile(file)), {});
  const work = exports[name];
  if (typeof work !== "function") throw new Error(`no primitive ${name}`);
  return (count) => {
    work(count);
  };
}
