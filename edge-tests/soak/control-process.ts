/** A workerd with a Worker of no mesh, which makes as many fetches as one with a member does: what it grows by is workerd's own. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { Child } from "selfsame-twiitr/child";
import { secretFile } from "selfsame-twiitr/secret";

import { ROOT } from "../lib/run.ts";
import { environment, type Participant } from "./participant.ts";
import { pidsOf } from "./samples.ts";

/** Its label. */
export const CONTROL = "control";
/** Between two looks at how many fetches the member has made. */
const LOOK_MS = 10_000;

/** The process. */
export class Control {
  readonly #folder: string;
  readonly #port: number;
  readonly #child: Child;

  private constructor(folder: string, port: number, child: Child) {
    this.#folder = folder;
    this.#port = port;
    this.#child = child;
  }

  /** Starts it at a port; `bundle` is the folder of its Worker. */
  static async start(parts: {
    bundle: string;
    folder: string;
    port: number;
    ledger: string;
  }): Promise<Control> {
    const { bundle, folder, port, ledger } = parts;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const settings = JSON.stringify({ SETTINGS: JSON.stringify({ ledger }) });
    const bindings = secretFile(join(folder, "bindings.json"), settings);
    const child = Child.start({
      name: CONTROL,
      command: process.execPath,
      args: [join(import.meta.dirname, "workerd.ts"), bundle, folder, `${port}`, bindings, "0"],
      cwd: ROOT,
      env: environment(),
      log: join(folder, `${CONTROL}.log`),
      isReady: ({ url }) => url !== undefined,
    });
    await child.ready;
    return new Control(folder, port, child);
  }

  /** Makes as many fetches as a member does, a little later, until it is over. */
  async follow(member: Participant, over: AbortSignal): Promise<void> {
    const pause = (ms: number): Promise<unknown> =>
      delay(Math.max(0, ms), undefined, { signal: over }).catch(() => undefined);
    for (let before = await fetchesOf(member); !over.aborted; ) {
      const now = await fetchesOf(member);
      const count = Math.max(0, now - before);
      before = now;
      const until = performance.now() + LOOK_MS;
      for (let made = 0; made < count && !over.aborted; made++) {
        await this.#ask();
        await pause((until - performance.now()) / (count - made));
      }
      await pause(until - performance.now());
    }
  }

  /** Its processes, as those of a participant. */
  processes(): { label: string; pid: number; log: string }[] {
    const { pid } = this.#child;
    const log = join(this.#folder, `${CONTROL}.log`);
    return pid === undefined ? [] : pidsOf(pid, "workerd").map((one) => ({ label: CONTROL, pid: one, log }));
  }

  /** Its heap is not asked for. */
  async heap(): Promise<undefined> {
    return undefined;
  }

  /** Ends it. */
  stop(): Promise<void> {
    return this.#child.stop();
  }

  async #ask(): Promise<void> {
    const response = await fetch(`http://127.0.0.1:${this.#port}/`);
    await response.arrayBuffer();
  }
}

async function fetchesOf(member: Participant): Promise<number> {
  // One that is frozen makes none.
  const told = member.state === "up" ? await member.tell("memory").catch(() => undefined) : undefined;
  return (told as { fetches?: number } | undefined)?.fetches ?? 0;
}
