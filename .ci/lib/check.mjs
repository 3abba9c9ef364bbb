/** What a check is. */

import { attempt } from "../../guest/build/lib/command.mjs";
import { root } from "../../guest/build/lib/files.mjs";

/**
 * What a check found: nothing is good. `note` is a figure worth a place on its line; `skipped` says why it could not run.
 *
 * @typedef {{ problems: readonly string[], note?: string, skipped?: string }} Finding
 */

/**
 * @typedef {object} Check
 * @property {string} name what a person types to repeat it
 * @property {string} what one line about it
 * @property {() => Promise<Finding> | Finding} run
 */

/**
 * A check that is one program, which ends with code 0 when all is well.
 *
 * @param {string} name
 * @param {string} what
 * @param {readonly string[]} command
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {Check}
 */
export function program(name, what, command, env = {}) {
  return { name, what, run: () => runProgram(command, env) };
}

/** What is found is printed with more around it, perhaps into a file. */
const PLAIN = { NO_COLOR: "1", CARGO_TERM_COLOR: "never", TERM: "dumb" };

/**
 * @param {readonly string[]} command
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {Promise<Finding>}
 */
export async function runProgram(command, env = {}) {
  const [file = "", ...args] = command;
  const result = await attempt(file, args, { cwd: root, env: { ...PLAIN, ...env } });
  const settings = Object.entries(env).map(([key, value]) => `${key}='${value}'`);
  const line = [...settings, ...command].join(" ");
  if (result === undefined) {
    return { problems: [`${file} is not installed, cannot run: ${line}`] };
  }
  return result.code === 0
    ? { problems: [] }
    : { problems: [`${result.stdout}${result.stderr}`.trim(), `$ ${line}`] };
}
