import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream, mkdirSync, type WriteStream } from "node:fs";
import { dirname } from "node:path";
import { createInterface } from "node:readline";

/** A line of JSON that a program prints. */
export type Message = Readonly<Record<string, unknown>>;

/** How to start a program. */
export type Program = {
  name: string;
  command: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
  /** File for all that it prints. */
  log: string;
  /** Whether a message says that the program can be reached. */
  isReady: (message: Message) => boolean;
};

/** A cold start on a busy machine takes some seconds. */
const READY_TIMEOUT_MS = 60_000;
/** What is left of a program after this is killed. */
const STOP_TIMEOUT_MS = 5000;
/** Enough of its last words to see why a program failed. */
const LAST_LINES = 15;

/** A program that runs in a process group of its own, so that nothing of it is left when it is stopped. */
export class Child {
  /** Settles when it can be reached; rejects with its last words when it ends before. */
  readonly ready: Promise<void>;
  /** Resolves when the program has ended. */
  readonly ended: Promise<void>;
  readonly #process: ChildProcess;
  readonly #lines: string[] = [];
  readonly #said: Map<string, unknown> = new Map();
  #hasEnded = false;

  private constructor({ name, command, args, cwd, env, log, isReady }: Program) {
    mkdirSync(dirname(log), { recursive: true });
    const file = createWriteStream(log, { flags: "a" });
    // Standard input stays open as long as this program lives: a child that reads its end knows that it is alone.
    const child = spawn(command, args, { cwd, env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
    this.#process = child;
    this.ended = new Promise((resolve) => {
      const end = (): void => {
        this.#hasEnded = true;
        file.end();
        resolve();
      };
      child.on("close", end);
      child.on("error", (error) => {
        this.#lines.push(error.message);
        end();
      });
    });
    this.ready = this.#untilReady(name, file, isReady);
    // Whoever asks for it hears of it.
    this.ready.catch(() => undefined);
  }

  /** Starts a program. */
  static start(program: Program): Child {
    return new Child(program);
  }

  /** Its process group. */
  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Whether it runs, perhaps stopped by a signal. */
  get isRunning(): boolean {
    return !this.#hasEnded;
  }

  /** The last value that its messages had under a name. */
  said(name: string): unknown {
    return this.#said.get(name);
  }

  /** Sends a signal to all of its processes. */
  signal(signal: NodeJS.Signals): void {
    const { pid } = this.#process;
    if (pid === undefined || this.#hasEnded) return;
    try {
      process.kill(-pid, signal);
    } catch (error) {
      // It ended in between.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }

  /** Asks it to end, and makes it end when it does not. */
  async stop(): Promise<void> {
    this.signal("SIGTERM");
    const timer = setTimeout(() => this.signal("SIGKILL"), STOP_TIMEOUT_MS);
    await this.ended;
    clearTimeout(timer);
  }

  /** Ends it as a crash would. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.ended;
  }

  #untilReady(name: string, file: WriteStream, isReady: Program["isReady"]): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (what: string): void => {
        const last = this.#lines.slice(-LAST_LINES).join("\n  ");
        reject(new Error(`${name} ${what}${last ? `; its last words:\n  ${last}` : ""}`));
      };
      const timer = setTimeout(
        () => fail(`was not ready after ${READY_TIMEOUT_MS / 1000} s`),
        READY_TIMEOUT_MS,
      );
      const onLine = (line: string): void => {
        file.write(`${new Date().toISOString()} ${line}\n`);
        this.#lines.push(line);
        if (this.#lines.length > LAST_LINES) this.#lines.shift();
        const message = parseMessage(line);
        for (const [key, value] of Object.entries(message)) this.#said.set(key, value);
        if (!isReady(message)) return;
        clearTimeout(timer);
        resolve();
      };
      for (const stream of [this.#process.stdout, this.#process.stderr]) {
        if (stream) createInterface({ input: stream }).on("line", onLine);
      }
      const ended = (): void => {
        clearTimeout(timer);
        fail("ended before it was ready");
      };
      this.ended.then(ended, ended);
    });
  }
}

function parseMessage(line: string): Message {
  if (!line.startsWith("{")) return {};
  try {
    return JSON.parse(line) as Message;
  } catch {
    return {};
  }
}
