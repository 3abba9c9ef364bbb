/** Running other programs. */

import { spawn } from "node:child_process";
import process from "node:process";

import { Problem } from "./report.mjs";

/**
 * @typedef {object} Options
 * @property {string} [cwd]
 * @property {NodeJS.ProcessEnv} [env] added to this process's own
 * @property {boolean} [visible] show what the program prints on its error output as it comes
 * @property {boolean} [shell] needed for `.cmd` files on Windows
 */

/**
 * Runs a program to its end.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {Options} [options]
 * @returns {Promise<{ code: number, stdout: string, stderr: string } | undefined>} `undefined` when there is no such
 *   program
 */
export function attempt(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      shell: options.shell ?? false,
      stdio: ["ignore", "pipe", options.visible ? "inherit" : "pipe"],
    });
    let stdout = "";
    let stderr = "";
    child.stdout?.setEncoding("utf8").on("data", (text) => {
      stdout += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text) => {
      stderr += text;
    });
    child.on("error", (error) => {
      if ("code" in error && error.code === "ENOENT") {
        resolve(undefined);
      } else {
        reject(error);
      }
    });
    child.on("close", (code, signal) => {
      resolve({ code: code ?? (signal === null ? 1 : 128), stdout, stderr });
    });
  });
}

/**
 * Runs a program that must succeed.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {Options} [options]
 * @returns {Promise<string>} what it printed
 */
export async function must(command, args, options = {}) {
  const result = await attempt(command, args, options);
  const line = [command, ...args].join(" ");
  if (result === undefined) {
    throw new Problem(`${command} is not installed, cannot run: ${line}`);
  }
  if (result.code !== 0) {
    throw new Problem(`${line} ended with code ${result.code}\n${result.stderr}${result.stdout}`.trimEnd());
  }
  return result.stdout;
}
