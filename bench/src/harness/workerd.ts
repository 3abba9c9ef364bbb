import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { bundle } from "./bundle.ts";
import { cpuTime, spent } from "./cpu.ts";
import type { Work } from "./measure.ts";
import { Problem } from "./problem.ts";

/** The package has no types; it exports the path of its binary. */
const { default: binary } = createRequire(import.meta.url)("workerd") as { readonly default: string };
const COMPILED_CONFIG = "config.bin";
/** The newest date that the pinned workerd knows. */
const COMPATIBILITY_DATE = "2026-11-02";
/** Longest configuration with the modules in it: a Worker of the largest size that Cloudflare takes. */
const MAX_CONFIG = 10 * 1024 * 1024;
/** Durable Objects of the class `Node`, stored in the service `objects`. */
const OBJECTS = `bindings = [ (name = "NODE", durableObjectNamespace = "Node") ],
    durableObjectNamespaces = [ (className = "Node", uniqueKey = "node", enableSql = true) ],
    durableObjectStorage = (localDisk = "objects"),`;
/** How long a process may take to listen. */
const START_MS = 20_000;

/** A Worker written to disk with a configuration that workerd can serve. */
export class WorkerFiles implements AsyncDisposable {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Writes the Worker whose entry is `entry`; `more` are the modules beside it, data unless they end in `.wasm`. With `objects` it exports
   * the class `Node` of Durable Objects, which are stored in SQLite on the disk.
   */
  static async write(
    entry: string,
    more: Readonly<Record<string, Uint8Array>> = {},
    { objects = false } = {},
  ): Promise<WorkerFiles> {
    const folder = await mkdtemp(path.join(os.tmpdir(), "selfsame-bench-"));
    const { script, wasm } = await bundle(entry, ["workerd"]);
    await writeFile(path.join(folder, "worker.js"), script);
    const modules = ['(name = "worker.js", esModule = embed "worker.js")'];
    for (const [name, bytes] of Object.entries({ ...wasm, ...more })) {
      await writeFile(path.join(folder, name), bytes);
      modules.push(`(name = "${name}", ${name.endsWith(".wasm") ? "wasm" : "data"} = embed "${name}")`);
    }
    const store = path.join(folder, "objects");
    await mkdir(store);
    const disk = `, (name = "objects", disk = (path = "${store}", writable = true))`;
    const config = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [ (name = "main", worker = (
    compatibilityDate = "${COMPATIBILITY_DATE}",
    ${objects ? OBJECTS : ""}
    modules = [ ${modules.join(", ")} ]
  ))${objects ? disk : ""} ],
  sockets = [ (name = "http", address = "127.0.0.1:0", http = (), service = "main") ]
);
`;
    const text = path.join(folder, "config.capnp");
    await writeFile(text, config);
    // As wrangler and miniflare hand it over, so that workerd's start is that of the Worker and not of a compiler.
    const options = { encoding: "buffer", maxBuffer: MAX_CONFIG } as const;
    const compiled = await promisify(execFile)(binary, ["compile", "--config-only", text], options);
    await writeFile(path.join(folder, COMPILED_CONFIG), compiled.stdout);
    return new WorkerFiles(folder);
  }

  /** The configuration, in the encoding that workerd needs not compile. */
  get config(): string {
    return path.join(this.#folder, COMPILED_CONFIG);
  }

  /** Removes the files. */
  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#folder, { recursive: true });
  }
}

/** A running workerd. */
export class Workerd implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #port: number;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.#port = port;
  }

  /** Starts workerd and returns when it listens. */
  static async start(files: WorkerFiles): Promise<Workerd> {
    const args = ["serve", "--binary", files.config, "--control-fd=3"];
    const child = spawn(binary, args, { stdio: ["ignore", "inherit", "inherit", "pipe"] });
    const control = child.stdio[3];
    if (control === null || control === undefined) throw new Problem("workerd has no control channel");
    const signal = AbortSignal.timeout(START_MS);
    let said = "";
    try {
      for await (const chunk of Object.assign(control, { signal }) as AsyncIterable<Buffer>) {
        said += chunk.toString();
        const port = /"event":"listen".*?"port":(\d+)/.exec(said)?.[1];
        if (port !== undefined) return new Workerd(child, Number(port));
        signal.throwIfAborted();
      }
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
    throw new Problem("workerd ended before it listened; what it said stands above");
  }

  /** Where it answers. */
  get url(): string {
    return `http://127.0.0.1:${this.#port}/`;
  }

  /** Asks the Worker. */
  async ask(query: string): Promise<string> {
    const response = await fetch(`${this.url}${query}`);
    const text = await response.text();
    if (!response.ok) throw new Problem(`workerd, ${query}: ${response.status} ${text}`);
    return text;
  }

  /** Nanoseconds of processor since the process started. */
  cpuTime(): number {
    const used = cpuTime(this.#pid);
    if (used === undefined) throw new Problem("this system does not tell a process's processor time");
    return used;
  }

  /** A task as work to be measured. */
  work(task: string): Work {
    const run = (count: number) => spent(this.#pid, () => this.ask(`?task=${task}&count=${count}`));
    return { name: `workerd ${task}`, run };
  }

  get #pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Ends the process. */
  async [Symbol.asyncDispose](): Promise<void> {
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }
}

/** Nanoseconds of processor that a fresh workerd needs up to its first answer. */
export async function firstAnswer(files: WorkerFiles): Promise<number> {
  await using workerd = await Workerd.start(files);
  await workerd.ask("");
  return workerd.cpuTime();
}
