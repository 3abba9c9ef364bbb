/** Targets of the Rust compiler. */

import { attempt } from "../../guest/build/lib/command.mjs";
import { root } from "../../guest/build/lib/files.mjs";

/**
 * Installs a target unless it is there.
 *
 * @param {string} target
 * @returns {Promise<string[]>} why that was not possible
 */
export async function needTarget(target) {
  const result = await attempt("rustup", ["target", "add", target], { cwd: root });
  return result === undefined || result.code === 0 ? [] : [`${result.stderr}\n$ rustup target add ${target}`];
}
