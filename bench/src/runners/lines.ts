import process from "node:process";
import { createInterface } from "node:readline";

import type { Task } from "../boundary/tasks.ts";

/** What a task says beside "done"; most say nothing. */
export type Answering = (count: number) => Said | Promise<Said>;

type Said = undefined | number | string;

/**
 * Serves the harness until standard input ends: a line `TASK COUNT` in, a line `ok [VALUE]` or `error MESSAGE` out.
 * `make` prepares the task of a name, once for each name.
 */
export async function serveLines(make: (name: string) => Promise<Task | Answering>): Promise<void> {
  const tasks = new Map<string, Task | Answering>();
  for await (const line of createInterface({ input: process.stdin })) {
    const [name = "", count] = line.split(" ");
    let answer: string;
    try {
      const task = tasks.get(name) ?? (await make(name));
      tasks.set(name, task);
      const value = await task(Number(count));
      answer = value === undefined ? "ok" : `ok ${value}`;
    } catch (error) {
      answer = `error ${String(error).replaceAll("\n", " ")}`;
    }
    process.stdout.write(`${answer}\n`);
  }
}
