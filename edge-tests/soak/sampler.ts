/** Samples all processes of the participants while they run. */
import { setTimeout as delay } from "node:timers/promises";

import { type Life, LineCounter, sampleOf } from "./samples.ts";

/** What is sampled. */
export interface Sampled {
  /** Its processes that run, with the files of their logs. */
  processes(): readonly { readonly label: string; readonly pid: number; readonly log: string }[];
  /** Memory of its JavaScript heap after a collection, in MB. */
  heap(): Promise<number | undefined>;
}

/** Looks at processes again and again. */
export class Sampler {
  readonly lives: Life[] = [];
  readonly #sampled: readonly Sampled[];
  readonly #lines: LineCounter = new LineCounter();
  readonly #start: number = performance.now();

  constructor(participants: readonly Sampled[]) {
    this.#sampled = participants;
  }

  /** Samples at an interval until it is aborted, and tells what was seen. */
  async run(interval_ms: number, over: AbortSignal, tell: (line: string) => void): Promise<void> {
    while (!over.aborted) {
      tell(this.#sample());
      await delay(interval_ms, undefined, { signal: over }).catch(() => undefined);
    }
  }

  /** Asks for heaps at an interval until it is aborted. */
  async runHeaps(interval_ms: number, over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      await Promise.all(this.#sampled.map((one) => this.#askHeap(one)));
      await delay(interval_ms, undefined, { signal: over }).catch(() => undefined);
    }
  }

  async #askHeap(participant: Sampled): Promise<void> {
    // One that is ended meanwhile does not tell.
    const value = await participant.heap().catch(() => undefined);
    if (value === undefined) return;
    const at_s = (performance.now() - this.#start) / 1000;
    for (const { label, pid } of participant.processes())
      this.#lifeOf(label, pid).heaps.push({ at_s, value });
  }

  #sample(): string {
    const at_s = (performance.now() - this.#start) / 1000;
    const seen = this.#sampled
      .flatMap((participant) => participant.processes())
      .flatMap(({ label, pid, log }) => {
        const sample = sampleOf(pid, at_s, this.#lines.count(log));
        if (sample === undefined) return [];
        this.#lifeOf(label, pid).samples.push(sample);
        return [`${label} ${sample.rss_mb.toFixed(0)} MB`];
      });
    return `${at_s.toFixed(0).padStart(5)} s: ${seen.join(", ")}`;
  }

  #lifeOf(label: string, pid: number): Life {
    const known = this.lives.find((life) => life.pid === pid && life.label === label);
    if (known !== undefined) return known;
    const life: Life = { label, pid, samples: [], heaps: [] };
    this.lives.push(life);
    return life;
  }
}
