/** Runs a suite of tests as a program of its own. */

import { spawn } from "node:child_process";
import { createWriteStream, mkdirSync } from "node:fs";
import path from "node:path";
import process from "node:process";

import { cache, root } from "../../guest/build/lib/files.mjs";
import { parseCounts } from "./counts.mjs";

/** @typedef {{ name: string, command: readonly string[] }} Suite */
/** @typedef {{ counts: import("./counts.mjs").Counts, complaint: string | undefined, output: string, log: string }} Result */

/** A suite that takes longer hangs. */
const TIMEOUT_MS = 20 * 60 * 1000;
/** What a program that is asked to end may take for it. */
const GRACE_MS = 10_000;

/**
 * Runs a suite to its end and counts its tests. A suite that fails without a failed test, or that runs none, counts as
 * one failed test.
 *
 * @param {Suite} suite
 * @param {NodeJS.ProcessEnv} [env]
 * @returns {Promise<Result>}
 */
export async function runSuite({ name, command }, env = {}) {
  const log = path.join(cache, "test", `${name}.log`);
  mkdirSync(path.dirname(log), { recursive: true });
  const { code, output } = await capture(command, log, env);
  const counts = parseCounts(output);
  const complaint = judge(code, counts);
  if (complaint !== undefined && counts.failed === 0) {
    counts.failed = 1;
  }
  return { counts, complaint, output, log: path.relative(root, log) };
}

/**
 * @param {number | string} code
 * @param {import("./counts.mjs").Counts} counts
 * @returns {string | undefined} what is wrong
 */
function judge(code, counts) {
  if (code !== 0) {
    return typeof code === "string" ? code : `it ended with code ${code}`;
  }
  if (counts.failed > 0) {
    return "it ended well but has failed tests";
  }
  return counts.passed + counts.skipped === 0 ? "it ran no test" : undefined;
}

/**
 * @param {readonly string[]} command
 * @param {string} log
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<{ code: number | string, output: string }>}
 */
function capture([file = "", ...args], log, env) {
  return new Promise((resolve) => {
    const copy = createWriteStream(log);
    const child = spawn(file, args, {
      cwd: root,
      env: { ...process.env, NO_COLOR: "1", FORCE_COLOR: undefined, ...env },
      // A group of its own, so that a suite that hangs ends with all that it started.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    let isLate = false;
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        output += text;
        copy.write(text);
      });
    }
    /** @param {NodeJS.Signals} signal */
    const signal = (signal) => {
      if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
        process.kill(-child.pid, signal);
      }
    };
    const timer = setTimeout(() => {
      isLate = true;
      signal("SIGTERM");
      setTimeout(signal, GRACE_MS, "SIGKILL").unref();
    }, TIMEOUT_MS);
    /** @param {number | string} code */
    const finish = (code) => {
      clearTimeout(timer);
      copy.end();
      resolve({ code: isLate ? `it did not end within ${TIMEOUT_MS / 60_000} minutes` : code, output });
    };
    child.on("error", (error) => finish(`${file} could not be started: ${error.message}`));
    child.on("close", (code, signal) => finish(code ?? `it was ended by ${signal}`));
  });
}
