import { endpointOf } from "./address.ts";
import { Dice } from "./dice.ts";
import { boundToNothing, GARBAGE, type Originals } from "./garbage.ts";
import { decode, HeldPair } from "./held.ts";
import type { InstancePool } from "./modules.ts";
import { OTHER_SECRET } from "./replica.ts";

/** Machines: a client and a replica of each of two services, and two more for first requests. */
export const MACHINES = 6;

/** Number of the address that floods come from. */
const STRANGER = 66;
/** Datagrams of a turn, and of each of its batches: as many calls of the session are under way at most. */
const TURN = 2_000;
const BATCH = 50;
const WARM_UP = 3;
const FIRST = "a valid first request with its answer";
const LATER = "a valid later request with its answer";

/** What datagrams of one kind cost. */
export type Cost = {
  readonly kind: string;
  /** Median nanoseconds for each. */
  readonly ns: number;
  /** The same of a first request with its ticket and its answer, and of a later one, in the same rounds. */
  readonly toFirst: number;
  readonly toLater: number;
};

/** Garbage against a replica, beside requests of an honest client. */
export class Flood {
  readonly #pool: InstancePool;
  readonly #pair: HeldPair;
  readonly #dice: Dice;
  readonly #originals: Originals;

  constructor(pool: InstancePool, seed: number) {
    this.#pool = pool;
    this.#dice = new Dice(seed);
    const other = new HeldPair(pool, seed, OTHER_SECRET);
    this.#pair = new HeldPair(pool, seed + 1);
    const [ofOtherService] = other.requests(1);
    const first = this.#pair.requests(1);
    this.#pair.serve(first);
    const later = this.#pair.requests(1);
    this.#pair.serve(later);
    const [withTicket, ofSession] = [first[0], later[0]];
    if (ofOtherService === undefined || withTicket === undefined || ofSession === undefined)
      throw new Error("the first requests were not sent");
    this.#originals = { withTicket, ofSession, ofOtherService };
  }

  /** Measures what each kind costs, with turns that alternate; needs a machine that is not busy. */
  costs(rounds: number): Cost[] {
    const turns: (readonly [kind: string, turn: () => number])[] = [
      [FIRST, () => this.#timeFirst()],
      [LATER, () => time(this.#pair, (count) => this.#pair.requests(count))],
      ...Object.entries(GARBAGE).map(([kind, make]) => [kind, () => this.#timeGarbage(make)] as const),
    ];
    const samples = new Map<string, number[]>(turns.map(([kind]) => [kind, []]));
    for (let round = -WARM_UP; round < rounds; round++) {
      for (const [kind, turn] of turns) {
        const ns = turn();
        if (round >= 0) samples.get(kind)?.push(ns);
      }
    }
    const of = (kind: string): number[] => samples.get(kind) ?? [];
    const ratio = (kind: string, to: string): number =>
      median(of(kind).map((ns, round) => ns / (of(to)[round] ?? Number.NaN)));
    return turns.map(([kind]) => ({
      kind,
      ns: median(of(kind)),
      toFirst: ratio(kind, FIRST),
      toLater: ratio(kind, LATER),
    }));
  }

  /**
   * Floods the replica while an honest client calls: what was wrong, and by how much the memory grew after the first
   * twentieth.
   */
  serveDuring(datagrams: number): { readonly problems: string[]; readonly grownBytes: number } {
    const { machine } = this.#pair.replica;
    const kinds = [...Object.values(GARBAGE), boundToNothing];
    const before = this.#pair.client.outcomes.size;
    const executed = this.#pair.replica.executions;
    const chunk = 50;
    let [calls, settled] = [0, 0];
    for (let sent = 0; sent < datagrams; sent += chunk) {
      const garbage = Array.from({ length: chunk }, () =>
        this.#dice.pick(kinds)(this.#dice, this.#originals),
      );
      const source = STRANGER + this.#dice.below(200);
      const said = decode(machine.stepBatch(this.#pair.batchOf(garbage, source)));
      if (said.some(({ type }) => type === "Serve"))
        return { problems: ["garbage was served"], grownBytes: 0 };
      this.#pair.serve(this.#pair.requests(1));
      calls += 1;
      if (sent >= datagrams / 20 && settled === 0) settled = machine.memoryBytes;
    }
    const done = [...this.#pair.client.outcomes.values()]
      .slice(before)
      .filter((one) => one === "Done").length;
    const problems = [...this.#pair.client.problems];
    if (done !== calls) problems.push(`${done} of ${calls} calls of the honest client were answered`);
    if (this.#pair.replica.executions !== executed) problems.push("calls were counted twice");
    return { problems, grownBytes: machine.memoryBytes - settled };
  }

  /**
   * Sends single datagrams from addresses that no ticket proves, valid ones too, and returns those that drew more than
   * three times their bytes.
   */
  amplified(): string[] {
    const problems: string[] = [];
    const kinds = { ...GARBAGE, "a request that is bound to nothing": boundToNothing, ...this.#copies() };
    let address = 1_000;
    for (const [kind, make] of Object.entries(kinds)) {
      for (let time = 0; time < 50; time++) {
        const datagram = make(this.#dice, this.#originals);
        const target = endpointOf(address);
        const batch = this.#pair.batchOf([datagram, datagram], address++);
        const outputs = decode(this.#pair.replica.machine.stepBatch(batch));
        let bytes = 0;
        for (const output of outputs) {
          if (output.type === "Send" && Buffer.compare(output.target, target) === 0)
            bytes += output.bytes.length;
        }
        if (bytes > 6 * datagram.length)
          problems.push(`${kind}: ${bytes} bytes for twice ${datagram.length}`);
      }
    }
    return problems;
  }

  /** Copies of what the client sent, from somewhere else. */
  #copies(): typeof GARBAGE {
    return {
      "a copy of a request with a ticket": (_, { withTicket }) => withTicket,
      "a copy of a request of a session": (_, { ofSession }) => ofSession,
    };
  }

  /** Times requests that begin a session each, at a replica that has room for these. */
  #timeFirst(): number {
    const pair = new HeldPair(this.#pool, 1);
    const ns = time(pair, (count) => pair.firstRequests(count));
    pair.end();
    return ns;
  }

  /** Returns the nanoseconds that a datagram of garbage takes. */
  #timeGarbage(make: (dice: Dice, originals: Originals) => Uint8Array): number {
    const { machine } = this.#pair.replica;
    let ms = 0;
    for (let done = 0; done < TURN; done += BATCH) {
      const datagrams = Array.from({ length: BATCH }, () => make(this.#dice, this.#originals));
      const batch = this.#pair.batchOf(datagrams, STRANGER);
      const began = performance.now();
      machine.stepBatch(batch);
      ms += performance.now() - began;
    }
    return (ms * 1e6) / TURN;
  }
}

/** Returns the nanoseconds that a valid request takes, with its answer. */
function time(pair: HeldPair, requestsOf: (count: number) => Uint8Array[]): number {
  const { machine } = pair.replica;
  let ms = 0;
  for (let done = 0; done < TURN; done += BATCH) {
    const requests = pair.batchOf(requestsOf(BATCH));
    const [began, outputs] = [performance.now(), machine.stepBatch(requests)];
    ms += performance.now() - began;
    const answers = pair.answersTo(outputs);
    const [resumed, sent] = [performance.now(), machine.stepBatch(answers)];
    ms += performance.now() - resumed;
    pair.deliver(sent);
  }
  return (ms * 1e6) / TURN;
}

function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((left, right) => left - right);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
