// A hypercore in one process: tasks as lines, see `task`.
import { mkdtemp, rm } from "node:fs/promises";
import path from "node:path";
import process from "node:process";

import Hypercore from "hypercore";

import { closedLoop } from "./closed-loop.ts";
import { type Answering, serveLines } from "./lines.ts";

/** Blocks that are asked for at a time, as many as we ask for in one request. */
const WINDOW = 100;

const folder = await mkdtemp(path.join(process.argv[2] ?? "", "hypercore-"));
const cores: Hypercore[] = [];

/** A core with so many blocks of a size, appended in batches. */
async function filled(bytes: number, blocks: number): Promise<Hypercore> {
  const core = new Hypercore(path.join(folder, `${cores.length}`));
  cores.push(core);
  await core.ready();
  for (let first = 0; first < blocks; first += WINDOW) {
    const batch = Array.from({ length: Math.min(WINDOW, blocks - first) }, (_, index) =>
      Buffer.from(`${first + index}`.padStart(bytes, "0")),
    );
    await core.append(batch);
  }
  return core;
}

/** Blocks in an order that has nothing to do with the one in which they were appended. */
function scattered(index: number, blocks: number): number {
  return (index * 7919) % blocks;
}

/** `get/BYTES/BLOCKS` reads blocks of a core of its own, which does not verify them; `proof/BYTES/BLOCKS` makes proofs of them. */
async function task(name: string): Promise<Answering> {
  const [kind, bytes = "", blocks = ""] = name.split("/");
  if (kind !== "get" && kind !== "proof") throw new Error(`no task ${name}`);
  const count = Number(blocks);
  const core = await filled(Number(bytes), count);
  const once = async (index: number) => {
    const block = scattered(index, count);
    if (kind === "get") {
      const value = await core.get(block);
      if (value === null) throw new Error(`block ${block} is not there`);
    } else {
      await core.proof({ block: { index: block, nodes: 0 }, upgrade: { start: 0, length: count } });
    }
  };
  return async (times) => JSON.stringify(await closedLoop(WINDOW, times, once));
}

try {
  await serveLines(task);
} finally {
  for (const core of cores) await core.close();
  await rm(folder, { recursive: true, force: true });
}
