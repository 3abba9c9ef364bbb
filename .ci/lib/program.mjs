/** A program that runs until it is stopped. */

import { spawn } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";

/** How long a program may take to end after Ctrl-C. */
const STOP_MS = 20_000;

export class Program {
  /** All that it printed. */
  output = "";
  /** @type {Promise<number | string>} its exit code, or the signal that ended it */
  ended;
  #child;

  /**
   * @param {readonly string[]} command
   * @param {{ cwd: string, env: NodeJS.ProcessEnv }} options
   */
  constructor([file = "", ...args], { cwd, env }) {
    // A group of its own, which Ctrl-C at a terminal reaches as a whole.
    this.#child = spawn(file, args, { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        this.output += text;
        process.stderr.write(text);
      });
    }
    this.ended = new Promise((resolve, reject) => {
      this.#child.on("error", reject);
      this.#child.on("close", (code, signal) => resolve(signal ?? code ?? 1));
    });
  }

  /**
   * Waits until it has printed something.
   *
   * @param {RegExp} pattern
   * @param {number} timeoutMs
   * @returns {Promise<boolean>} whether it came in time
   */
  async prints(pattern, timeoutMs) {
    let hasEnded = false;
    void this.ended.finally(() => {
      hasEnded = true;
    });
    const deadline = performance.now() + timeoutMs;
    while (!pattern.test(this.output)) {
      if (hasEnded || performance.now() > deadline) {
        return false;
      }
      await delay(50);
    }
    return true;
  }

  /**
   * Ctrl-C, and what must follow when that is not enough.
   *
   * @returns {Promise<boolean>} whether Ctrl-C was enough
   */
  async stop() {
    this.#signal("SIGINT");
    const late = new AbortController();
    const isGone = await Promise.race([
      this.ended.then(() => true),
      delay(STOP_MS, false, { signal: late.signal }).catch(() => false),
    ]);
    late.abort();
    this.#signal("SIGKILL");
    return isGone;
  }

  /** @param {NodeJS.Signals} signal */
  #signal(signal) {
    const { pid } = this.#child;
    try {
      if (pid !== undefined) {
        process.kill(-pid, signal);
      }
    } catch {
      // Nobody is left in the group.
    }
  }
}

/**
 * @param {string} folder
 * @returns {Promise<string[]>} programs that still run out of a folder, where the system tells
 */
export async function stillRunning(folder) {
  const found = [];
  for (const pid of (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name))) {
    const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (command.includes(folder) && Number(pid) !== process.pid) {
      found.push(`${pid} ${command.replaceAll("\0", " ").trim()}`);
    }
  }
  return found;
}
