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

async function newCore(): Promise<Hypercore> {
  const core = new Hypercore(path.join(folder, `${cores.length}`));
  cores.push(core);
  await core.ready();
  return core;
}

/** Appends so many blocks of a size in batches. */
async function append(core: Hypercore, bytes: number, blocks: number, batch = WINDOW): Promise<void> {
  for (let first = 0; first < blocks; first += batch) {
    const contents = Array.from({ length: Math.min(batch, blocks - first) }, (_, index) =>
      Buffer.from(`${first + index}`.padStart(bytes, "0")),
    );
    await core.append(contents);
  }
}

/** Blocks in an order that has nothing to do with the one in which they were appended. */
function scattered(index: number, blocks: number): number {
  return (index * 7919) % blocks;
}

/**
 * `append/BYTES` and `appends/BYTES` append blocks one by one and in hundreds. `get/BYTES/BLOCKS` reads blocks of a core of its own, which
 * does not verify them, and `read/BYTES/BLOCKS` one by one; `proof/BYTES/BLOCKS` makes proofs of them.
 */
async function task(name: string): Promise<Answering> {
  const [kind = "", bytes = "", blocks = ""] = name.split("/");
  const size = Number(bytes);
  if (!["append", "appends", "get", "read", "proof"].includes(kind)) throw new Error(`no task ${name}`);
  const core = await newCore();
  if (kind === "append" || kind === "appends") {
    return async (times) => void (await append(core, size, times, kind === "append" ? 1 : WINDOW));
  }
  const count = Number(blocks);
  await append(core, size, count);
  const once = async (index: number) => {
    const block = scattered(index, count);
    if (kind === "proof") {
      await core.proof({ block: { index: block, nodes: 0 }, upgrade: { start: 0, length: count } });
    } else {
      const value = await core.get(block);
      if (value === null) throw new Error(`block ${block} is not there`);
    }
  };
  return async (times) => JSON.stringify(await closedLoop(kind === "read" ? 1 : WINDOW, times, once));
}

try {
  await serveLines(task);
} finally {
  for (const core of cores) await core.close();
  await rm(folder, { recursive: true, force: true });
}
