/** Checks of core.wasm and of what is made from it. */

import { buildCore } from "../../guest/build/core.mjs";
import { root } from "../../guest/build/lib/files.mjs";
import { boundary, readModule } from "../../guest/build/lib/wasm.mjs";

/** @typedef {import("../lib/check.mjs").Check} Check */
/** @typedef {import("../lib/check.mjs").Finding} Finding */

/** The bar for what a page downloads, compressed with gzip. */
const MAX_GZIP_BYTES = 110_000;
/** The whole boundary. */
const EXPORTS = ["abi_version", "alloc", "create", "derive", "destroy", "free", "memory", "step", "verify"];

/** @returns {Promise<Finding>} */
async function exact() {
  await buildCore();
  const { imports, exports } = boundary(await readModule(`${root}/runtime/core/core.wasm`));
  const problems = imports.map((name) => `the core imports ${name}; it must import nothing`);
  problems.push(
    ...exports
      .filter((name) => !EXPORTS.includes(name))
      .map((name) => `the core exports ${name}, which is not in the boundary`),
    ...EXPORTS.filter((name) => !exports.includes(name)).map((name) => `the core does not export ${name}`),
  );
  return { problems, note: `imports [], ${exports.length} exports` };
}

/** @returns {Promise<Finding>} */
async function size() {
  const { gzipBytes } = await buildCore();
  const problems =
    gzipBytes > MAX_GZIP_BYTES ? [`the core has ${gzipBytes} bytes gzipped, over ${MAX_GZIP_BYTES}`] : [];
  return { problems, note: `${gzipBytes} bytes; the bar is ${MAX_GZIP_BYTES}` };
}

/** @type {readonly Check[]} */
export const core = [
  { name: "core-boundary", what: "core.wasm imports nothing and exports the boundary", run: exact },
  { name: "core-size", what: "size of core.wasm gzipped", run: size },
];
