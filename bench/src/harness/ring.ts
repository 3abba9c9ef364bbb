import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { Command } from "./command.ts";
import { Problem } from "./problem.ts";

/** The network of all nodes that the command starts here, which are on this machine. */
export const NETWORK = ["--network", "bench"] as const;

/** A ring of bootstraps in one process of the command, which others join. */
export class Bootstraps implements AsyncDisposable {
  readonly #command: Command;
  /** Their addresses. */
  readonly addresses: readonly string[];

  private constructor(command: Command, addresses: readonly string[]) {
    this.#command = command;
    this.addresses = addresses;
  }

  /** Starts so many. */
  static async start(binary: string, count: number): Promise<Bootstraps> {
    const size = ["--count", "1", "--bootstraps", `${count}`];
    const life = ["--order", "sequential", "--keep", "--end-with-input"];
    const command = new Command(binary, ["nodes", ...NETWORK, ...size, ...life]);
    const { bootstraps } = await command.event("kept");
    if (!Array.isArray(bootstraps)) throw new Problem("selfsame nodes tells no bootstraps");
    return new Bootstraps(command, bootstraps.map(String));
  }

  /** One of them, another at each turn. */
  at(turn: number): string {
    return this.addresses[turn % this.addresses.length] ?? "";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#command[Symbol.asyncDispose]();
  }
}

/** Nanoseconds of a process with one node. */
export interface Life {
  /** From the start of the process to its node, which has a new identity, being in the ring. */
  readonly joined: number;
  /** From the signal to end to its node being out of the ring. */
  readonly left: number;
}

/** Starts a process whose node joins, and lets it leave. */
export async function joinAndLeave(binary: string, bootstrap: string): Promise<Life> {
  const folder = await mkdtemp(path.join(tmpdir(), "selfsame-bench-"));
  try {
    const place = ["--listen", "ws://127.0.0.1:0", "--allow-private", "--data", folder];
    const begin = process.hrtime.bigint();
    await using node = new Command(binary, ["node", ...NETWORK, ...place, "--join", bootstrap]);
    await node.event("joined");
    const joined = process.hrtime.bigint();
    await node.leave();
    const left = process.hrtime.bigint();
    return { joined: Number(joined - begin), left: Number(left - joined) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
