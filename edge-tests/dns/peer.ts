import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

import { ROOT, run } from "../lib/run.ts";
import { freePort } from "./servers.ts";

/** How long anything may take that comes by itself: a join that is tried again, a look-up that times out. */
const PATIENCE_MS = 90_000;
/** Pause between two looks at what a node has counted. */
const LOOK_MS = 200;

/** The program that cargo builds. */
export const PROGRAM: string = join(
  process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"),
  `debug/selfsame${process.platform === "win32" ? ".exe" : ""}`,
);

/** Runs a command in a folder and resolves with what it prints, also when it finds something wrong. */
export async function selfsame(folder: string, ...args: string[]): Promise<string> {
  return (await run(PROGRAM, args, { cwd: folder })).trim();
}

/** The same of a command that ends with a failure, as the doctor does when something is wrong. */
export async function failing(folder: string, ...args: string[]): Promise<string> {
  return await selfsame(folder, ...args).catch((error: Error) => error.message);
}

/** A line of what a node prints. */
interface PeerEvent {
  readonly event: string;
  readonly id?: string;
  readonly addresses?: readonly string[];
}

/** A node that runs as a program of its own. */
export class Peer {
  readonly #child: ChildProcess;
  readonly #metrics: number;
  readonly #events: PeerEvent[] = [];
  #said = "";

  private constructor(child: ChildProcess, metrics: number) {
    this.#child = child;
    this.#metrics = metrics;
    child.stderr?.on("data", (piece) => (this.#said += piece));
    if (child.stdout !== null) {
      createInterface(child.stdout).on("line", (line) => this.#events.push(JSON.parse(line)));
    }
  }

  /** Starts a node with these flags in a folder. */
  static async start(folder: string, args: readonly string[]): Promise<Peer> {
    const metrics = await freePort();
    const common = ["node", "--json", "--allow-private", "--listen", "ws://127.0.0.1:0"];
    const own = ["--metrics", `127.0.0.1:${metrics}`, "--end-with-input"];
    const stdio = ["pipe", "pipe", "pipe"] as const;
    return new Peer(
      spawn(PROGRAM, [...common, ...own, ...args], { cwd: folder, stdio: [...stdio] }),
      metrics,
    );
  }

  /** Waits for an event of this name. */
  async event(name: string): Promise<PeerEvent> {
    return await this.#until(`the event ${name}`, async () =>
      this.#events.find((event) => event.event === name),
    );
  }

  /** `URL#ID` for others to join through. */
  async bootstrap(): Promise<string> {
    const { addresses, id } = await this.event("started");
    return `${addresses?.[0]}#${id}`;
  }

  /** Waits until the node has a number of successors. */
  async successors(count: number): Promise<void> {
    const line = new RegExp(`^selfsame_node\\{[^}]*what="successors"[^}]*\\} ${count}$`, "m");
    await this.#until(`${count} successors`, async () => line.test(await this.metrics()) || undefined);
  }

  /** Waits until the node has counted an error. */
  async counts(code: string): Promise<void> {
    await this.#until(`the error ${code}`, async () => (await this.counted(code)) > 0 || undefined);
  }

  /** How often the node has counted an error. */
  async counted(code: string): Promise<number> {
    const line = new RegExp(`^selfsame_errors_total\\{[^}]*code="${code}"[^}]*\\} (\\d+)`, "m");
    return Number(line.exec(await this.metrics())?.[1] ?? 0);
  }

  /** What Prometheus reads. */
  async metrics(): Promise<string> {
    try {
      return await (await fetch(`http://127.0.0.1:${this.#metrics}/metrics`)).text();
    } catch {
      // It does not listen yet, or has ended.
      return "";
    }
  }

  /** Has it read its files again. */
  reload(): void {
    this.#child.kill("SIGHUP");
  }

  /** Waits until it has ended, and resolves with what it has said. */
  async end(): Promise<string> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      await once(this.#child, "exit", { signal: AbortSignal.timeout(PATIENCE_MS) });
    }
    return this.#said;
  }

  /** Ends it. */
  async stop(): Promise<void> {
    this.#child.stdin?.end();
    await this.end();
  }

  async #until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
    const until = Date.now() + PATIENCE_MS;
    while (Date.now() < until) {
      const found = await look();
      if (found !== undefined) return found;
      await pause(LOOK_MS);
    }
    throw new Error(`${what} did not come; the node has said ${this.#said}`);
  }
}
