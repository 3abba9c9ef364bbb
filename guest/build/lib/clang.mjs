/**
 * The C compiler for WebAssembly. The pinned one comes from npm, is itself WebAssembly and runs in worker threads on
 * files in memory; `WASI_SDK_PATH` names another one on disk.
 */

import { existsSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import path from "node:path";
import process from "node:process";
import { Worker } from "node:worker_threads";

import { must } from "./command.mjs";
import { cache, root } from "./files.mjs";
import { Problem } from "./report.mjs";

/**
 * @typedef {object} Unit one C file and how to compile it
 * @property {string} file
 * @property {readonly string[]} flags
 */

/**
 * @typedef {object} Compiler
 * @property {string} name what tells its output apart from another compiler's
 * @property {boolean} official whether the published build is made with it
 * @property {(sources: Map<string, Uint8Array>, units: readonly Unit[], onDone: (count: number) => void) =>
 *   Promise<Uint8Array>} archive compiles the units and returns one static library
 */

/** More threads than this cost more memory (each compiler takes some 300 MB) than they save time. */
const MAX_THREADS = 4;
/** Files that one thread compiles before it reports back. */
const FILES_PER_JOB = 6;

/** @returns {Promise<Compiler>} */
export async function findCompiler() {
  const sdk = process.env.WASI_SDK_PATH;
  return sdk === undefined || sdk === "" ? packagedCompiler() : systemCompiler(sdk);
}

/** @returns {Promise<Compiler>} */
async function packagedCompiler() {
  const manifest = path.join(root, "node_modules/@yowasp/clang/package.json");
  /** @type {{ version: string }} */
  let found;
  try {
    found = JSON.parse(await readFile(manifest, "utf8"));
  } catch {
    throw new Problem("the C compiler for WebAssembly is not installed; run: npm install");
  }
  return { name: `@yowasp/clang ${found.version}`, official: true, archive: archiveInWorkers };
}

/**
 * @param {string} sdk
 * @returns {Promise<Compiler>}
 */
async function systemCompiler(sdk) {
  const clang = path.join(sdk, "bin/clang");
  if (!existsSync(clang)) {
    throw new Problem(
      `WASI_SDK_PATH is ${sdk}, which holds no bin/clang: correct it, or unset it to use the pinned one`,
    );
  }
  const version = (await must(clang, ["--version"])).split("\n")[0] ?? "unknown";
  return {
    name: version,
    official: false,
    archive: (sources, units, onDone) => archiveOnDisk(sdk, sources, units, onDone),
  };
}

/**
 * Objects are named by the place of their unit: base names repeat in a large library.
 *
 * @param {number} index
 */
function objectName(index) {
  return `${String(index).padStart(3, "0")}.o`;
}

/**
 * @param {Worker} worker
 * @param {import('./clang-worker.mjs').Request} request
 * @returns {Promise<import('./clang-worker.mjs').Reply>}
 */
function ask(worker, request) {
  return new Promise((resolve, reject) => {
    worker.once("error", reject);
    worker.once("message", (reply) => {
      worker.off("error", reject);
      if ("error" in reply) {
        reject(new Problem(reply.error));
      } else {
        resolve(reply);
      }
    });
    worker.postMessage(request);
  });
}

/** @type {Compiler['archive']} */
async function archiveInWorkers(sources, units, onDone) {
  const threads = Math.min(MAX_THREADS, availableParallelism(), Math.ceil(units.length / FILES_PER_JOB));
  const script = new URL("./clang-worker.mjs", import.meta.url);
  const workers = Array.from({ length: threads }, () => new Worker(script, { workerData: { sources } }));
  /** @type {Map<string, Uint8Array>} */
  const objects = new Map();
  let next = 0;
  /** @param {Worker} worker */
  const drive = async (worker) => {
    while (next < units.length) {
      const from = next;
      next = Math.min(units.length, from + FILES_PER_JOB);
      const job = units
        .slice(from, next)
        .map((unit, index) => ({ ...unit, object: objectName(from + index) }));
      const reply = await ask(worker, { job });
      for (const [name, object] of "objects" in reply ? reply.objects : []) {
        objects.set(name, object);
      }
      onDone(objects.size);
    }
  };
  try {
    await Promise.all(workers.map(drive));
    const [first] = workers;
    const reply = first === undefined ? undefined : await ask(first, { archive: objects });
    if (reply === undefined || !("archive" in reply)) {
      throw new Error("the compiler made no archive");
    }
    return reply.archive;
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

/**
 * @param {string} sdk
 * @param {Map<string, Uint8Array>} sources
 * @param {readonly Unit[]} units
 * @param {(count: number) => void} onDone
 * @returns {Promise<Uint8Array>}
 */
async function archiveOnDisk(sdk, sources, units, onDone) {
  const folder = path.join(cache, `sodium/wasi-sdk.${process.pid}`);
  try {
    for (const [name, data] of sources) {
      await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
      await writeFile(path.join(folder, name), data);
    }
    let next = 0;
    const work = async () => {
      while (next < units.length) {
        const index = next++;
        const unit = units[index];
        if (unit !== undefined) {
          const args = [...unit.flags, "-c", unit.file, "-o", objectName(index)];
          await must(path.join(sdk, "bin/clang"), args, { cwd: folder });
          onDone(index + 1);
        }
      }
    };
    await Promise.all(Array.from({ length: availableParallelism() }, work));
    const names = units.map((_, index) => objectName(index));
    await must(path.join(sdk, "bin/llvm-ar"), ["rcsD", "libsodium.a", ...names], { cwd: folder });
    return await readFile(path.join(folder, "libsodium.a"));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
