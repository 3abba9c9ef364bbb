import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";

import { spent } from "./cpu.ts";
import type { Work } from "./measure.ts";
import { Problem } from "./problem.ts";

/** A process that does tasks: one line `TASK COUNT` in, one line `ok [VALUE]` or `error MESSAGE` out. */
export class TaskProcess implements AsyncDisposable {
  readonly #name: string;
  readonly #child: ChildProcess;
  readonly #lines: Interface;

  constructor(name: string, command: string, args: readonly string[]) {
    this.#name = name;
    this.#child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
    this.#child.on("error", () => {
      // `request` reports the end of the answers; without a listener this would end the harness.
    });
    const { stdout } = this.#child;
    if (stdout === null) throw new Problem(`${name} has no standard output`);
    this.#lines = createInterface({ input: stdout });
  }

  /** Has a task done `count` times and returns what it says about it. */
  async request(task: string, count: number): Promise<string> {
    const answer = new AbortController();
    const ended = once(this.#lines, "close", { signal: answer.signal });
    const line = once(this.#lines, "line", { signal: answer.signal });
    this.#child.stdin?.write(`${task} ${count}\n`);
    try {
      const [text] = await Promise.race([line, ended.then(() => ["error the process ended"])]);
      if (typeof text === "string" && (text === "ok" || text.startsWith("ok "))) return text.slice(3);
      throw new Problem(`${this.#name}, ${task}: ${String(text).replace(/^error /, "")}`);
    } finally {
      answer.abort();
      await Promise.allSettled([line, ended]);
    }
  }

  /** A task as work to be measured. */
  work(task: string): Work {
    const pid = this.#child.pid;
    if (pid === undefined) throw new Problem(`${this.#name} did not start`);
    return { name: `${this.#name} ${task}`, run: (count) => spent(pid, () => this.request(task, count)) };
  }

  /** Ends the process. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.pid === undefined || this.#child.exitCode !== null || this.#child.signalCode !== null)
      return;
    const exit = once(this.#child, "exit");
    this.#child.stdin?.end();
    this.#child.kill();
    await exit;
  }
}
