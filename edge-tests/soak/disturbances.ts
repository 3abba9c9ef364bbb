/** What happens to participants while they are called: one disturbance after the other, chosen by a seed. */
import { setTimeout as delay } from "node:timers/promises";

import type { Random } from "../recover/random.ts";
import type { Participant } from "./participant.ts";

/** How long a process stays stopped. */
const FROZEN_MS = 15_000;
/** How long a killed member stays away, and a service withdrawn. */
const AWAY_MS = 10_000;
const WITHDRAWN_MS = 20_000;

/** What may happen. */
const KINDS = ["kill", "freeze", "restart", "withdraw", "cut"] as const;
/** One of them. */
export type Disturbance = (typeof KINDS)[number];

/**
 * The disturbances of a run: each kind comes once before any comes again. Members that are ended and started are those of `mortals`;
 * the others live from the beginning to the end, so that what they take can be measured.
 */
export class Disturbances {
  readonly #random: Random;
  readonly #members: readonly Participant[];
  readonly #mortals: readonly Participant[];
  #bag: Disturbance[] = [];

  constructor(random: Random, members: readonly Participant[], mortals: readonly Participant[]) {
    this.#random = random;
    this.#members = members;
    this.#mortals = mortals;
  }

  /** Chooses the next one: what happens, and to whom. */
  next(): { kind: Disturbance; victim: Participant } {
    if (this.#bag.length === 0) this.#bag = [...KINDS];
    const [kind = "kill"] = this.#bag.splice(this.#random.below(this.#bag.length), 1);
    const victims = this.#members.filter((member) => this.#mayBefall(kind, member));
    const victim = victims[this.#random.below(victims.length)];
    if (victim === undefined) throw new Error(`there is nobody to whom ${kind} may happen`);
    return { kind, victim };
  }

  #mayBefall(kind: Disturbance, member: Participant): boolean {
    if (kind === "kill" || kind === "restart") return this.#mortals.includes(member);
    if (kind === "withdraw") return member.hasDesk;
    return kind === "freeze" || member.forwarder !== undefined;
  }
}

/** Lets it happen; resolves when all is as before. */
export async function disturb(kind: Disturbance, victim: Participant): Promise<void> {
  switch (kind) {
    case "kill":
      await victim.kill();
      await delay(AWAY_MS);
      return victim.start();
    case "restart":
      await victim.stop();
      return victim.start();
    case "freeze":
      victim.freeze();
      await delay(FROZEN_MS);
      return victim.thaw();
    case "withdraw":
      await victim.tell("withdraw");
      await delay(WITHDRAWN_MS);
      await victim.tell("publish");
      return;
    case "cut":
      victim.forwarder?.cut();
  }
}
