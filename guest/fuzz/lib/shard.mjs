/** One process of the fuzzer. */

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { root } from "../../build/lib/files.mjs";

/**
 * @typedef {{ target: string, message: string, input: string }} Failure
 * @typedef {object} Lane
 * @property {string} target
 * @property {number} executions
 * @property {number} seconds that they took together
 * @property {number} inputs
 * @property {boolean} lasting
 * @property {number} warm
 * @property {number} now
 *
 * @typedef {{ guided: boolean, total: number, reached: string, largest: number, heap: number, memory: number | null }} End
 * @typedef {{ failures: Failure[], lanes: Lane[], end: End | undefined }} Report
 */

/** The longest that a process may say nothing. */
const SILENCE_MS = 5 * 60_000;

/**
 * Runs the fuzzer and gathers what it tells. A process that ends otherwise than it should is a failure too.
 *
 * @param {string} program
 * @param {readonly string[]} args
 * @param {(executions: number) => void} onProgress
 * @returns {Promise<Report>}
 */
export async function runShard(program, args, onProgress) {
  /** @type {Report} */
  const report = { failures: [], lanes: [], end: undefined };
  const child = spawn(program, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  let words = "";
  let executions = 0;
  child.stderr.setEncoding("utf8").on("data", (text) => {
    words = (words + text).slice(-4000);
  });
  const ended = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(signal ?? code));
  });
  const silence = setTimeout(() => child.kill("SIGKILL"), SILENCE_MS);
  for await (const line of createInterface({ input: child.stdout })) {
    silence.refresh();
    const message = JSON.parse(line);
    if ("progress" in message) {
      executions = message.progress;
      onProgress(executions);
    } else if ("failed" in message) {
      report.failures.push({ target: message.failed, message: message.message, input: message.input });
    } else if ("target" in message) {
      report.lanes.push(message);
    } else {
      report.end = message;
    }
  }
  const how = await ended;
  clearTimeout(silence);
  if (report.end === undefined) {
    const what = `the process ended with ${how} after at least ${executions} executions; ${words.trim()}`;
    report.failures.push({
      target: "process",
      message: `${what}\n  ${[program, ...args].join(" ")}`,
      input: "",
    });
  }
  return report;
}
