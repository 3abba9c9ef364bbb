import { type Addressee, Conversation, REPLICAS } from "./conversation.ts";
import { Dice } from "./dice.ts";
import type { InstancePool } from "./modules.ts";
import { ROUTER } from "./router.ts";
import type { Datagram } from "./world.ts";

/** What an attack came to. */
export type Attack = {
  readonly problems: readonly string[];
  /** Calls that were carried out again, each by another replica than before. */
  readonly executed: number;
  readonly replayed: number;
};

/** What happens between a conversation and the attack with its datagrams. */
type Scenario = {
  /** Copies of idempotent calls are carried out by replicas that had not done so; else nothing is. */
  readonly reachesOthers?: boolean;
  /** No datagram opens. */
  readonly opensNothing?: boolean;
  /** Changes the world; returns who gets the datagrams, one after the other. */
  readonly prepare: (conversation: Conversation) => readonly Addressee[];
};

const EVERYBODY: readonly Addressee[] = ["addressee", ...REPLICAS];
/** After so long early data is not carried out. */
const WINDOW_US = 10_000_000;
/** Number of a replica that took no part in the conversation. */
const NEWCOMER = 4;

/** The scenarios by their names. */
export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "to the same replicas": { prepare: () => ["addressee"] },
  "to all replicas": { reachesOthers: true, prepare: () => EVERYBODY },
  "through the router": { reachesOthers: true, prepare: () => [ROUTER] },
  "to a restarted replica": {
    prepare: (conversation) => {
      const notBefore_ms = conversation.world.now_us / 1_000 + 1;
      return ["addressee", conversation.start({ number: 1, notBefore_ms }).number];
    },
  },
  "after one rotation": {
    reachesOthers: true,
    prepare: (conversation) => {
      for (const replica of conversation.running) conversation.rotate(replica, 1);
      return EVERYBODY;
    },
  },
  "after one rotation, to a newcomer": {
    reachesOthers: true,
    prepare: (conversation) => {
      conversation.rotate(conversation.start({ number: NEWCOMER }), 1);
      return [NEWCOMER];
    },
  },
  "after two rotations": {
    reachesOthers: true,
    prepare: (conversation) => {
      for (const replica of conversation.running) conversation.rotate(replica, 2);
      return EVERYBODY;
    },
  },
  "after two rotations, to a newcomer": {
    opensNothing: true,
    prepare: (conversation) => {
      conversation.rotate(conversation.start({ number: NEWCOMER }), 2);
      return [NEWCOMER];
    },
  },
  "held back": {
    prepare: (conversation) => {
      conversation.world.run(conversation.world.now_us + WINDOW_US);
      return [...EVERYBODY, conversation.start({ number: NEWCOMER }).number];
    },
  },
};

/** The orders in which captured datagrams come again. */
export const ORDERS: Readonly<Record<string, (captured: readonly Datagram[], dice: Dice) => Datagram[]>> = {
  "in order": (captured) => [...captured],
  reversed: (captured) => [...captured].reverse(),
  shuffled: (captured, dice) => dice.shuffled(captured),
  "shuffled, each twice": (captured, dice) => dice.shuffled([...captured, ...captured]),
};

/** Records a conversation and attacks it. */
export function attack(
  pool: InstancePool,
  scenario: string,
  order: string,
  { seed, idempotent }: { readonly seed: number; readonly idempotent: boolean },
): Attack {
  const { prepare, reachesOthers = false, opensNothing = false } = SCENARIOS[scenario] ?? unknown(scenario);
  const ordered = ORDERS[order] ?? unknown(order);
  const conversation = new Conversation(pool, seed, idempotent);
  try {
    const problems = [...conversation.problems, ...(idempotent ? conversation.missing : [])];
    const before = conversation.executions;
    const to = prepare(conversation);
    const datagrams = ordered(conversation.captured, new Dice(seed + 1));
    for (const addressee of to) conversation.replay(datagrams, addressee);
    const executed = conversation.executions - before;
    problems.push(...conversation.problems);
    const mayExecute = reachesOthers && idempotent;
    if (executed > 0 && !mayExecute) problems.push(`${executed} calls were carried out again`);
    // Copies that no replica takes show nothing.
    if (executed === 0 && mayExecute) problems.push("no replica took the copy of an idempotent call");
    if (opensNothing && conversation.opened > 0)
      problems.push(`${conversation.opened} datagrams were opened`);
    if (!opensNothing && conversation.opened === 0) problems.push("no datagram was opened");
    return { problems, executed, replayed: datagrams.length * to.length };
  } finally {
    conversation.end();
  }
}

function unknown(what: string): never {
  throw new Error(`there is no ${what}`);
}
