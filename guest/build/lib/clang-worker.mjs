/** One thread with its own copy of the packaged C compiler. */

import { parentPort, workerData } from "node:worker_threads";

/** @typedef {{ file: string, flags: readonly string[], object: string }} Task */
/** @typedef {{ job: readonly Task[] } | { archive: Map<string, Uint8Array> }} Request */
/** @typedef {{ objects: Map<string, Uint8Array> } | { archive: Uint8Array } | { error: string }} Reply */
/** @typedef {{ [name: string]: Tree | Uint8Array | string }} Tree */

/** @param {Map<string, Uint8Array>} files */
function toTree(files) {
  /** @type {Tree} */
  const tree = {};
  for (const [name, data] of files) {
    const parts = name.split("/");
    const base = parts.pop() ?? "";
    let folder = tree;
    for (const part of parts) {
      folder = /** @type {Tree} */ ((folder[part] ??= {}));
    }
    folder[base] = data;
  }
  return tree;
}

/**
 * Runs one of LLVM's programs on files in memory.
 *
 * @param {'clang' | 'ar'} program
 * @param {readonly string[]} args
 * @param {Tree} files
 * @returns {Promise<Tree>} the files afterwards
 */
async function llvm(program, args, files) {
  const { commands, Exit } = await import("@yowasp/clang");
  let messages = "";
  const decoder = new TextDecoder();
  /** @param {Uint8Array | null} bytes */
  const collect = (bytes) => {
    messages += bytes === null ? "" : decoder.decode(bytes, { stream: true });
  };
  try {
    const after = await commands[program]([...args], files, { stdout: collect, stderr: collect });
    return /** @type {Tree} */ (after);
  } catch (error) {
    if (error instanceof Exit) {
      throw new Error(`${program} ended with code ${error.code}\n${messages}`);
    }
    throw error;
  }
}

/**
 * @param {Map<string, Uint8Array>} objects
 * @returns {Promise<Reply>} a static library of them, in the order of their names
 */
async function archive(objects) {
  const names = [...objects.keys()].sort();
  const files = await llvm("ar", ["rcsD", "library.a", ...names], Object.fromEntries(objects));
  return { archive: /** @type {Uint8Array} */ (files["library.a"]) };
}

/**
 * @param {readonly Task[]} job
 * @param {Tree} tree the sources
 * @returns {Promise<Reply>}
 */
async function compile(job, tree) {
  /** @type {Map<string, Uint8Array>} */
  const objects = new Map();
  for (const { file, flags, object } of job) {
    try {
      const files = await llvm("clang", [...flags, "-c", file, "-o", object], tree);
      objects.set(object, /** @type {Uint8Array} */ (files[object]));
    } catch (error) {
      return { error: `${file} does not compile: ${error instanceof Error ? error.message : String(error)}` };
    }
  }
  return { objects };
}

if (parentPort === null) {
  throw new Error("this module only runs as a worker thread");
}
const port = parentPort;
const tree = toTree(workerData.sources);
// The package prints how far its own loading is, in this thread's console; the main thread shows the real progress.
console.log = () => {};
port.on("message", async (/** @type {Request} */ request) => {
  port.postMessage(await ("job" in request ? compile(request.job, tree) : archive(request.archive)));
});
