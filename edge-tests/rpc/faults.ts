import { codeNames, codeNumber } from "../../runtime/src/codec/code.ts";
import type { RpcSelection } from "../../runtime/src/codec/rpc.ts";
import type { Call } from "./calls.ts";
import { Client } from "./client.ts";
import { Dice } from "./dice.ts";
import type { InstancePool } from "./modules.ts";
import { badNetwork } from "./network.ts";
import { type Handling, Replica } from "./replica.ts";
import { ROUTER, Router } from "./router.ts";
import { START_US, World } from "./world.ts";

/** Machines of one trial at most: a client, a router, three replicas. */
export const MACHINES = 5;

const SECOND_US = 1_000_000;
/** A call that has not ended so long after its deadline never does. */
const GRACE_US = SECOND_US;
const SELECTIONS: readonly RpcSelection[] = [
  "random",
  "roundRobin",
  "shortestQueue",
  "bounded",
  "powerOfTwo",
  "probed",
];
/** What a trial came to. */
export type Trial = {
  readonly problems: readonly string[];
  /** How often calls ended in each way, by `once` or `idempotent` and the outcome. */
  readonly outcomes: ReadonlyMap<string, number>;
  /** Calls under way when the replica was killed, and those of them that it was carrying out. */
  readonly underWay: number;
  readonly beingCarriedOut: number;
};

/** A client, replicas and faults that follow from a seed. */
class FaultTrial {
  readonly #dice: Dice;
  readonly #pool: InstancePool;
  readonly #world: World;
  readonly #client: Client;
  /** The replicas that live, by their numbers. */
  readonly #alive: Map<number, Replica> = new Map();
  /** All lives of all replicas. */
  readonly #lives: Replica[] = [];
  readonly #calls: Call[] = [];
  /** Whether the service carries out idempotent calls at once. */
  readonly #idempotent: boolean;
  readonly #replicas: number;
  readonly #victim: number;
  readonly #hasRouter: boolean;
  #lastDeadline_us = 0;
  #isKilled = false;
  #underWay = 0;
  #beingCarriedOut = 0;

  constructor(pool: InstancePool, seed: number) {
    const dice = new Dice(seed);
    this.#dice = dice;
    this.#pool = pool;
    const badness = {
      loss: dice.pick([0, 0, 0.02, 0.1]),
      duplication: dice.pick([0, 0.05]),
      fastest_us: 100,
      slowest_us: dice.pick([100, 2_000, 20_000]),
    };
    this.#world = new World(badNetwork(dice, badness));
    this.#idempotent = dice.chance(0.7);
    this.#replicas = dice.between(2, 3);
    for (let number = 1; number <= this.#replicas; number++) this.#start(number, 0);
    this.#victim = dice.between(1, this.#replicas);
    this.#hasRouter = dice.chance(0.4);
    if (this.#hasRouter) this.#startRouter();
    this.#client = new Client(this.#world, pool, () => {
      const alive = [...this.#alive.values()];
      return alive.length === 0 ? undefined : dice.pick(alive);
    });
  }

  run(): Trial {
    try {
      this.#planCalls();
      this.#planKill();
      this.#world.run(this.#lastDeadline_us + GRACE_US);
      return {
        problems: this.#problems(),
        outcomes: this.#outcomes(),
        underWay: this.#underWay,
        beingCarriedOut: this.#beingCarriedOut,
      };
    } finally {
      this.#world.end();
    }
  }

  #start(number: number, notBefore_ms: number): void {
    const replica = new Replica(this.#world, this.#pool, {
      number,
      entropy: this.#dice.bytes(32),
      idempotent: this.#idempotent,
      notBefore_ms,
      handle: () => this.#handling(),
    });
    this.#alive.set(number, replica);
    this.#lives.push(replica);
  }

  #startRouter(): void {
    new Router(this.#world, this.#pool, {
      servers: Array.from({ length: this.#replicas }, (_, at) => at + 1),
      selection: this.#dice.pick(SELECTIONS),
      bound: this.#dice.between(1, 3),
      redirects: this.#dice.chance(0.3),
      entropy: this.#dice.bytes(32),
    });
  }

  #handling(): Handling {
    const after_us = this.#dice.pick([0, 1_000, 20_000, 200_000]);
    return this.#dice.chance(0.03) ? { after_us, refusal: codeNumber("TooManyRequests") } : { after_us };
  }

  #planCalls(): void {
    const dice = this.#dice;
    for (let number = 1; number <= dice.between(4, 12); number++) {
      const size = (): number => (dice.chance(0.2) ? dice.between(1_500, 20_000) : dice.between(9, 200));
      const call = { number, isIdempotent: dice.chance(0.5), requestBytes: size(), answerBytes: size() };
      const target = this.#target();
      const timeout_ms = dice.between(500, 8_000);
      const at_us = dice.between(0, SECOND_US);
      this.#calls.push(call);
      this.#lastDeadline_us = Math.max(this.#lastDeadline_us, START_US + at_us + timeout_ms * 1_000);
      this.#world.after(at_us, () => this.#client.call(call, { target, timeout_ms }));
    }
  }

  #target(): number {
    const dice = this.#dice;
    if (this.#hasRouter && dice.chance(0.6)) return ROUTER;
    return dice.chance(0.5) ? this.#victim : dice.between(1, this.#replicas);
  }

  /** Kills a replica a random time after one of the datagrams that it gets, and perhaps starts it again. */
  #planKill(): void {
    const dice = this.#dice;
    let datagrams = dice.between(1, 8);
    this.#world.onSend = ({ to }) => {
      if (to !== this.#victim || --datagrams !== 0) return;
      this.#world.after(dice.pick([0, 50, 500, 5_000, 50_000]), () => {
        // In the middle of a request: else one datagram later.
        if (this.#client.underWay === 0) datagrams = 1;
        else this.#kill(this.#victim);
      });
    };
    // One that gets no more datagrams is killed when the last call has begun.
    this.#world.after(SECOND_US, () => this.#kill(this.#victim));
  }

  #kill(victim: number): void {
    const replica = this.#alive.get(victim);
    if (replica === undefined || this.#isKilled) return;
    this.#isKilled = true;
    this.#underWay = this.#client.underWay;
    this.#beingCarriedOut = replica.open;
    this.#world.remove(replica);
    this.#alive.delete(victim);
    if (this.#dice.chance(0.6)) {
      const after_us = this.#dice.pick([0, 10_000, SECOND_US, 3 * SECOND_US]);
      this.#world.after(after_us, () => this.#start(victim, this.#world.now_us / 1_000));
    }
  }

  #executions(call: Call): number[] {
    return this.#lives.map((life) => life.executed.get(call.number) ?? 0);
  }

  #problems(): string[] {
    return [...this.#client.problems, ...this.#calls.flatMap((call) => this.#problemsOf(call))];
  }

  #problemsOf(call: Call): string[] {
    const problems: string[] = [];
    const what = `call ${call.number} (${kindOf(call)})`;
    const outcome = this.#client.outcomes.get(call.number);
    const executions = this.#executions(call);
    const sum = executions.reduce((all, one) => all + one, 0);
    if (outcome === undefined) return [`${what} never ended`];
    if (!call.isIdempotent && sum > 1) problems.push(`${what} was carried out ${sum} times`);
    if (Math.max(...executions) > 1)
      problems.push(`${what} was carried out ${Math.max(...executions)} times by one life of a replica`);
    if (outcome === "Done")
      return sum > 0 ? problems : [...problems, `${what} has an answer that nobody gave`];
    if (!codeNames.some((name) => name === outcome)) problems.push(`${what} ended with ${outcome}`);
    if (!call.isIdempotent && sum > 0 && outcome !== "OutcomeUnknown")
      problems.push(`${what} ended with ${outcome}, and was carried out`);
    // Another life may have carried an idempotent one out, and its answer got lost.
    if (this.#lives.some((life) => life.refused.has(call.number) && life.executed.has(call.number)))
      problems.push(`${what} was refused by the replica that carried it out`);
    return problems;
  }

  #outcomes(): Map<string, number> {
    const outcomes = new Map<string, number>();
    for (const call of this.#calls) {
      const outcome = `${kindOf(call)} ${this.#client.outcomes.get(call.number) ?? "never"}`;
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
    return outcomes;
  }
}

function kindOf(call: Call): "once" | "idempotent" {
  return call.isIdempotent ? "idempotent" : "once";
}

/** Plays the trial of a seed. */
export function playTrial(pool: InstancePool, seed: number): Trial {
  return new FaultTrial(pool, seed).run();
}
