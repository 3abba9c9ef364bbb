/** Calls at a steady rate from all callers that are up, and what becomes of them. */
import { setTimeout as delay } from "node:timers/promises";

import type { Random } from "../recover/random.ts";
import { reasonOf } from "./calls.ts";
import type { Participant } from "./participant.ts";
import { type Kind, type Outcome, SERVICE } from "./settings.ts";

/** Shares of the kinds of calls, of 70. */
const SHARES: Readonly<Record<Kind, number>> = {
  small: 30,
  large: 3,
  post: 10,
  stream: 6,
  events: 4,
  socket: 4,
  leaf: 8,
  abort: 4,
  append: 1,
};
const ALL: number = Object.values(SHARES).reduce((sum, share) => sum + share, 0);
/** Calls are begun in many small portions. */
const PORTION_MS = 10;
/** Longest wait for the last calls. */
const LAST_MS = 60_000;

/** What became of the calls of a kind. */
export interface Tally {
  calls: number;
  ok: number;
  /** Those that the application tried again. */
  retried: number;
  failed: number;
  /** Those whose caller was frozen or ended meanwhile: nobody waits for their answers. */
  unheard: number;
  took_ms: number[];
}

/** Those who take part in the calls. */
export interface Cast {
  readonly callers: readonly Participant[];
  readonly writers: readonly Participant[];
  readonly leaves: readonly Participant[];
}

/** Calls, and counts. */
export class Load {
  readonly tallies: Map<Kind, Tally> = new Map();
  /** Reasons of failures, and of attempts that were made again, with how often each came. */
  readonly failures: Map<string, number> = new Map();
  readonly retries: Map<string, number> = new Map();
  /** Ids of POSTs and how often a provider was asked for each. */
  readonly posted: Map<string, number> = new Map();
  /** Ids of POSTs and appends that were acknowledged. */
  readonly acknowledged: { post: string[]; append: string[] } = { post: [], append: [] };
  readonly #random: Random;
  readonly #cast: Cast;
  readonly #open: Set<Promise<void>> = new Set();
  #begun = 0;

  constructor(random: Random, cast: Cast) {
    this.#random = random;
    this.#cast = cast;
  }

  /** What has become of the calls so far. */
  get summary(): string {
    const failed = [...this.tallies].map(([kind, tally]) => `${tally.failed} ${kind}`);
    const kinds = failed.filter((text) => !text.startsWith("0 "));
    return `${this.#begun} calls, ${this.#open.size} open, failed ${kinds.join(" ") || "none"}`;
  }

  /** Counts the id of a POST that a provider was asked for. */
  count(id: string): void {
    this.posted.set(id, (this.posted.get(id) ?? 0) + 1);
  }

  /** Calls at a rate, in calls in a second, until it is aborted, and then waits for the last ones. */
  async run(rate: number, over: AbortSignal): Promise<void> {
    const start = performance.now();
    while (!over.aborted) {
      const due = ((performance.now() - start) / 1000) * rate;
      while (this.#begun < due) this.#begin();
      await delay(PORTION_MS);
    }
    await Promise.race([Promise.all(this.#open), delay(LAST_MS)]);
  }

  #begin(): void {
    const kind = this.#pickKind();
    const among = (kind === "append" ? this.#cast.writers : this.#cast.callers).filter(
      ({ state }) => state === "up",
    );
    this.#begun++;
    const caller = among[this.#random.below(Math.max(1, among.length))];
    const leaf = this.#cast.leaves[this.#random.below(this.#cast.leaves.length)];
    if (caller === undefined) return;
    const service = kind === "leaf" && leaf !== undefined ? leaf.name : SERVICE;
    const id = `${kind}-${String(this.#begun).padStart(8, "0")}`;
    const call = this.#call(caller, kind, service, id);
    this.#open.add(call);
    call.finally(() => this.#open.delete(call)).catch(() => undefined);
  }

  #pickKind(): Kind {
    let at = this.#random.below(ALL);
    for (const [kind, share] of Object.entries(SHARES)) {
      at -= share;
      if (at < 0) return kind as Kind;
    }
    return "small";
  }

  async #call(caller: Participant, kind: Kind, service: string, id: string): Promise<void> {
    const tally = this.#tallyOf(kind);
    const { disturbed } = caller;
    tally.calls++;
    const outcome = await caller.follow({ kind, service, id }).catch((error: unknown): Outcome => {
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      return { ok: false, attempts: 1, reasons: [`the caller is gone: ${reasonOf(cause)}`], took_ms: 0 };
    });
    const what = `${kind} from ${caller.name}${kind === "leaf" ? ` to ${service}` : ""}`;
    if (outcome.ok) {
      tally.ok++;
      tally.took_ms.push(outcome.took_ms);
      if (outcome.attempts > 1) tally.retried++;
      if (kind === "post" || kind === "append") this.acknowledged[kind].push(id);
    } else if (caller.disturbed !== disturbed) tally.unheard++;
    else {
      tally.failed++;
      add(this.failures, `${what}: ${outcome.reasons.at(-1)}`);
    }
    for (const reason of outcome.ok ? outcome.reasons : outcome.reasons.slice(0, -1)) {
      add(this.retries, `${what}: ${reason}`);
    }
  }

  #tallyOf(kind: Kind): Tally {
    const known = this.tallies.get(kind);
    if (known !== undefined) return known;
    const tally: Tally = { calls: 0, ok: 0, retried: 0, failed: 0, unheard: 0, took_ms: [] };
    this.tallies.set(kind, tally);
    return tally;
  }
}

function add(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
