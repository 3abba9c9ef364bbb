import { type Loop, type LoopResult, runOnAll } from "./loop.ts";
import type { TaskProcess } from "./process.ts";

/** Processes of each network: as many as the machine has cores, so that a runtime with one thread uses both. */
export const PROCESSES = 2;

/** Nodes of one kind in several processes that form one network. */
export class Network implements AsyncDisposable {
  readonly #processes: readonly TaskProcess[];
  /** Address of the node that was started first. */
  readonly address: string;

  private constructor(processes: readonly TaskProcess[], address: string) {
    this.#processes = processes;
    this.address = address;
  }

  /** Starts so many nodes, evenly spread over the processes; a network of one has one process. */
  static async start(nodes: number, start: () => TaskProcess): Promise<Network> {
    const processes = Array.from({ length: Math.min(PROCESSES, nodes) }, start);
    let address = "";
    try {
      for (const [index, process] of processes.entries()) {
        const share = Math.floor(nodes / processes.length) + (index < nodes % processes.length ? 1 : 0);
        const first = await process.request(`nodes/${address}`, share);
        if (index === 0) address = first;
      }
    } catch (error) {
      for (const process of processes) await process[Symbol.asyncDispose]();
      throw error;
    }
    return new Network(processes, address);
  }

  /** Runs a task on all processes at the same time. */
  run(task: string, count: number): Promise<LoopResult> {
    return runOnAll(this.#processes, task, count);
  }

  /** Lookups of random ids by all nodes in turn, `window` at a time altogether. */
  lookups(name: string, window: number): Loop {
    const each = Math.max(1, Math.round(window / this.#processes.length));
    return { name, run: (count) => this.run(`lookup/${each}`, count) };
  }

  /** Ends all nodes. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const process of this.#processes) await process[Symbol.asyncDispose]();
  }
}
