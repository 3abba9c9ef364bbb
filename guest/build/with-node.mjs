#!/usr/bin/env node
/** Runs a command with the pinned Node and the checkout's tools first on PATH: `node guest/build/with-node.mjs vitest`. */

import { spawn } from "node:child_process";
import { constants } from "node:os";
import path from "node:path";
import process from "node:process";

import { root } from "./lib/files.mjs";
import { nodeFolder } from "./lib/node.mjs";
import { Problem, run } from "./lib/report.mjs";

/** What a shell answers when a command does not exist. */
const NOT_FOUND = 127;

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @returns {Promise<number>} the exit code
 */
function launch(command, args) {
  const windows = process.platform === "win32";
  // On Windows the variable is called Path, and the tools are .cmd files that only a shell runs.
  const name = Object.keys(process.env).find((key) => key.toUpperCase() === "PATH") ?? "PATH";
  const folders = [nodeFolder(), path.join(root, "node_modules/.bin"), process.env[name] ?? ""];
  const env = { ...process.env, [name]: folders.join(path.delimiter) };
  // The program is looked up on the new PATH, as a shell would.
  const child = spawn(command, args, { env, stdio: "inherit", shell: windows });
  // Ctrl-C reaches the whole group, and programs take a second one as "at once": pass it on only where there is no terminal.
  process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"));
  for (const signal of /** @type {const} */ (["SIGTERM", "SIGHUP"])) {
    process.on(signal, () => child.kill(signal));
  }
  return new Promise((resolve, reject) => {
    child.on("error", (error) => {
      if ("code" in error && error.code === "ENOENT") {
        process.stderr.write(`error: ${command} is neither installed in this checkout nor on PATH\n`);
        resolve(NOT_FOUND);
      } else {
        reject(error);
      }
    });
    child.on("close", (code, signal) => {
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    });
  });
}

await run(async () => {
  const [command, ...args] = process.argv.slice(2);
  if (command === undefined) {
    throw new Problem("name a command to run, as in: node guest/build/with-node.mjs vitest run");
  }
  process.exitCode = await launch(command, args);
});
