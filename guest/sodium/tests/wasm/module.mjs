/** Builds the test module and calls it. */

import { cargoWasm, readModule } from "../../../build/lib/wasm.mjs";
import { buildSodium } from "../../../build/sodium.mjs";

/**
 * @typedef {object} Exports
 * @property {WebAssembly.Memory} memory
 * @property {(length: number) => number} input
 * @property {(pathLength: number) => number} run
 * @property {() => number} report
 * @property {() => number} report_len
 * @property {(index: number) => number} refuse
 * @property {() => void} compare_arithmetic
 * @property {() => void} ask_for_randomness
 */

/** What `run` returns when the file cannot be run at all. */
const UNREADABLE = 0xffff_ffff;

/** @returns {Promise<WebAssembly.Module>} */
export async function compileTestModule() {
  await buildSodium();
  const file = await cargoWasm(["--package", "selfsame-sodium", "--example", "vectors"]);
  return new WebAssembly.Module(await readModule(file));
}

/**
 * @param {WebAssembly.Module} module
 * @returns {Exports}
 */
export function instantiate(module) {
  return /** @type {Exports} */ (/** @type {unknown} */ (new WebAssembly.Instance(module).exports));
}

/**
 * @param {Exports} wasm
 * @param {string} path the file's path below `tests/vectors`
 * @param {string} contents
 * @returns {{ passed: number, failures: string[] }}
 */
export function runFile(wasm, path, contents) {
  const encoder = new TextEncoder();
  const name = encoder.encode(path);
  const data = encoder.encode(contents);
  const at = wasm.input(name.length + data.length) >>> 0;
  const buffer = new Uint8Array(wasm.memory.buffer, at, name.length + data.length);
  buffer.set(name);
  buffer.set(data, name.length);
  const passed = wasm.run(name.length) >>> 0;
  const text = readReport(wasm);
  if (passed === UNREADABLE) {
    throw new Error(text);
  }
  return { passed, failures: text === "" ? [] : text.split("\n") };
}

/**
 * @param {Exports} wasm
 * @returns {string}
 */
export function readReport(wasm) {
  return new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, wasm.report() >>> 0, wasm.report_len()));
}
