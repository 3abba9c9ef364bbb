/** Checks of core.wasm and of what is made from it. */

import { buildCore } from "../../guest/build/core.mjs";
import { root } from "../../guest/build/lib/files.mjs";
import { boundary, readModule } from "../../guest/build/lib/wasm.mjs";
import { readJson } from "../lib/sources.mjs";

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

/**
 * While the core is over the bar, `.ci/limits.json` holds the size that it must not exceed; the exception goes when the
 * bar is met.
 *
 * @returns {Promise<Finding>}
 */
async function size() {
  const { gzipBytes } = await buildCore();
  const { coreGzipBytes } = readJson(".ci/limits.json");
  const limit = coreGzipBytes ?? MAX_GZIP_BYTES;
  const problems = [];
  if (gzipBytes > limit) problems.push(`the core has ${gzipBytes} bytes gzipped, over ${limit}`);
  if (coreGzipBytes !== undefined && gzipBytes <= MAX_GZIP_BYTES) {
    problems.push("the core meets its bar: take coreGzipBytes out of .ci/limits.json");
  }
  const exception = limit === MAX_GZIP_BYTES ? "" : `, MISSED: an exception allows ${limit}`;
  return { problems, note: `${gzipBytes} bytes; the bar is ${MAX_GZIP_BYTES}${exception}` };
}

/** @type {readonly Check[]} */
export const core = [
  { name: "core-boundary", what: "core.wasm imports nothing and exports the boundary", run: exact },
  { name: "core-size", what: "size of core.wasm gzipped", run: size },
];
