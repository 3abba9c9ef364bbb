import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

import { ROOT } from "./run.ts";

/** How long a program may take until it is ready, on a machine that does much else. */
const START_MS = 60_000;
/** How long one may take to end by itself. */
const STOP_MS = 10_000;

/** A program that tells what it does line by line, and ends with its standard input. */
export interface Program {
  /** The first of its next lines that is wanted. */
  line(wanted: (line: string) => boolean): Promise<string>;
  /** Lets it end. */
  stop(): Promise<void>;
}

/** Starts a program. */
export function start(name: string, command: string, args: readonly string[]): Program {
  const child = spawn(command, [...args], { stdio: ["pipe", "pipe", "inherit"] });
  const failed = new Promise<never>((_, reject) => child.once("error", reject));
  const lines = createInterface({ input: child.stdout as Readable })[Symbol.asyncIterator]();
  const search = async (wanted: (line: string) => boolean): Promise<string> => {
    for (;;) {
      const { done, value } = await lines.next();
      if (done === true) throw new Error(`${name} has ended`);
      if (wanted(value)) return value;
    }
  };
  // A program that cannot be started is told by whoever awaits its lines.
  failed.catch(() => undefined);
  return {
    line: (wanted) => inTime(`${name} was not ready`, Promise.race([search(wanted), failed])),
    stop: () => stop(child),
  };
}

async function inTime<T>(complaint: string, work: Promise<T>): Promise<T> {
  const timeout = AbortSignal.timeout(START_MS);
  const late = once(timeout, "abort").then(() => {
    throw new Error(`${complaint} within ${START_MS / 1000} s`);
  });
  return Promise.race([work, late]);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.stdin?.end();
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
  await ended;
  clearTimeout(timer);
}

/** A sidecar that runs. */
export interface Sidecar {
  /** Its node's id. */
  readonly id: string;
  /** What programs take for their proxy. */
  readonly url: string;
  /** What other nodes join through. */
  readonly join: string;
  /** Where it shows its numbers. */
  readonly metrics: string;
  /** Lets it leave the ring and end. */
  stop(): Promise<void>;
}

/** What a sidecar is started with. */
export interface SidecarOptions {
  /** Folder of its identity and state. */
  readonly data: string;
  /** `NAME=http://127.0.0.1:PORT`. */
  readonly expose: string;
  /** A sidecar to join through; the first one begins the ring. */
  readonly join?: string;
  /** A collector that it tells of each request. */
  readonly otlp?: string;
}

/** Starts a sidecar and waits until what it exposes is published. */
export async function startSidecar({ data, expose, join, otlp }: SidecarOptions): Promise<Sidecar> {
  const args = [
    "--json",
    "proxy",
    "--network",
    "programs",
    "--unowned",
    "--allow-private",
    "--end-with-input",
  ];
  args.push("--data", data, "--listen", "127.0.0.1:0", "--node-listen", "ws://127.0.0.1:0");
  args.push("--expose", expose, ...(join === undefined ? [] : ["--join", join]));
  args.push("--metrics", "127.0.0.1:0", ...(otlp === undefined ? [] : ["--otlp", otlp]));
  const program = start("the sidecar", selfsame(), args);
  const told = async (event: string) =>
    JSON.parse(await program.line((line) => JSON.parse(line).event === event));
  const { id, addresses } = await told("started");
  const metrics = await told("metrics");
  const { address } = await told("proxy");
  await told("published");
  return {
    id,
    url: `http://${address}`,
    join: `${addresses[0]}#${id}`,
    metrics: `http://${metrics.address}/metrics`,
    stop: program.stop,
  };
}

/** The program `selfsame`: `SELFSAME_BIN`, or what the build makes. */
export function selfsame(): string {
  const { SELFSAME_BIN } = process.env;
  return SELFSAME_BIN ?? built("selfsame");
}

/** A program in Rust that the build makes; those of examples are in the folder `examples`. */
export function built(name: string): string {
  const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
  const file = join(target, "release", process.platform === "win32" ? `${name}.exe` : name);
  if (!existsSync(file)) throw new Error(`there is no program ${file}: npm run build`);
  return file;
}
