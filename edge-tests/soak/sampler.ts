/** Samples all processes of the participants while they run. */
import { setTimeout as delay } from "node:timers/promises";

import type { Participant } from "./participant.ts";
import { type Life, LineCounter, sampleOf } from "./samples.ts";

/** Looks at processes again and again. */
export class Sampler {
  readonly lives: Life[] = [];
  readonly #participants: readonly Participant[];
  readonly #lines: LineCounter = new LineCounter();
  readonly #start: number = performance.now();

  constructor(participants: readonly Participant[]) {
    this.#participants = participants;
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
      await Promise.all(this.#participants.map((participant) => this.#askHeap(participant)));
      await delay(interval_ms, undefined, { signal: over }).catch(() => undefined);
    }
  }

  async #askHeap(participant: Participant): Promise<void> {
    // One that is ended meanwhile does not tell.
    const value = await participant.heap().catch(() => undefined);
    if (value === undefined) return;
    const at_s = (performance.now() - this.#start) / 1000;
    for (const { label, pid } of participant.processes())
      this.#lifeOf(label, pid).heaps.push({ at_s, value });
  }

  #sample(): string {
    const at_s = (performance.now() - this.#start) / 1000;
    const seen = this.#participants
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
