import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

import { Problem } from "./problem.ts";

/** What the command `selfsame --json` tells in one line. */
export type Told = Readonly<Record<string, unknown>>;

/** A run of the command `selfsame` that goes on until it is disposed of. */
export class Command implements AsyncDisposable {
  readonly #child;
  readonly #lines: AsyncIterator<string>;
  readonly #args: readonly string[];

  /** `before` stands before everything else, for a program that runs another. */
  constructor(binary: string, args: readonly string[], before: readonly string[] = []) {
    this.#args = args;
    this.#child = spawn(binary, [...before, "--json", ...args], { stdio: ["pipe", "pipe", "inherit"] });
    this.#child.on("error", () => {
      // `event` reports the end of the output; without a listener this would end the harness.
    });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** Everything that it still tells, until it ends. */
  async *told(): AsyncGenerator<Told> {
    for (let line = await this.#lines.next(); line.done !== true; line = await this.#lines.next())
      yield JSON.parse(line.value) as Told;
  }

  /** The next line that tells of this event. */
  async event(name: string): Promise<Told> {
    for (let line = await this.#lines.next(); line.done !== true; line = await this.#lines.next()) {
      const told = JSON.parse(line.value) as Told;
      if (told.event === name) return told;
    }
    throw new Problem(`selfsame ${this.#args.join(" ")} ended before it told of "${name}"`);
  }

  /** Asks it to end, and waits until it tells that its node has left the ring. */
  async leave(): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.event("left");
  }

  /** Ends it without a farewell. */
  async [Symbol.asyncDispose](): Promise<void> {
    const { pid, exitCode, signalCode } = this.#child;
    if (pid === undefined || exitCode !== null || signalCode !== null) return;
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }
}
