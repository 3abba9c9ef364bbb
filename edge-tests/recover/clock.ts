/** Wall clocks of processes that can be set while they run. */
import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";

import { run } from "../lib/run.ts";

const NS_PER_MS = 1_000_000n;

/** Compiles the library that moves the clock of a process; resolves with its path. */
export async function buildClockLibrary(folder: string): Promise<string> {
  if (process.platform !== "linux") {
    throw new Error("the clock of a process can be moved on Linux alone, by LD_PRELOAD: run this test there");
  }
  mkdirSync(folder, { recursive: true });
  const library = join(folder, "clock.so");
  const source = join(import.meta.dirname, "clock.c");
  await run(process.env.CC ?? "cc", ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source]);
  return library;
}

/** The wall clock of the processes that were started with its environment. */
export class Clock {
  readonly #library: string;
  readonly #path: string;
  readonly #file: number;

  /** A clock that is right, kept in a file of this folder. */
  constructor(library: string, path: string) {
    this.#library = library;
    this.#path = path;
    this.#file = openSync(path, "w", 0o600);
    this.set(0);
  }

  /** What a process is started with to go by this clock. */
  get env(): Record<string, string> {
    return { LD_PRELOAD: this.#library, CLOCK_OFFSET_FILE: this.#path };
  }

  /** Puts the clock this many milliseconds ahead of the right time. */
  set(ahead_ms: number): void {
    const offset = Buffer.alloc(8);
    offset.writeBigInt64LE(BigInt(ahead_ms) * NS_PER_MS);
    writeSync(this.#file, offset, 0, offset.length, 0);
  }

  /** Closes its file; processes that still run keep the time that was set last. */
  close(): void {
    closeSync(this.#file);
  }
}
