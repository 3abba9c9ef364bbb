import type { Call } from "./calls.ts";
import { Client } from "./client.ts";
import { Dice } from "./dice.ts";
import type { InstancePool } from "./modules.ts";
import { type Badness, badNetwork } from "./network.ts";
import { Replica } from "./replica.ts";
import { ROUTER, Router } from "./router.ts";
import { World } from "./world.ts";

/** Machines: a client, a router, three replicas. */
export const MACHINES = 5;

const REPLICAS = [1, 2, 3] as const;
/** Calls that are under way at a time. */
const CONCURRENCY = 16;
const TIMEOUT_MS = 60_000;
/** Short, so that tickets are renewed again and again. */
const TICKET_LIFE_S = 60;
/** A tenth is lost each way, a twentieth arrives twice, and a datagram is overtaken by those of four round trips. */
const BADNESS: Badness = { loss: 0.1, duplication: 0.05, fastest_us: 500, slowest_us: 8_000 };

/** What the network did, and what became of the calls. */
export type Lossy = {
  readonly problems: readonly string[];
  readonly datagrams: number;
  readonly lost: number;
  readonly tickets: number;
  readonly virtual_s: number;
};

/** Makes calls over a network that loses, copies and reorders datagrams, several at a time. */
export function callOverLossyNetwork(pool: InstancePool, seed: number, calls: number): Lossy {
  const dice = new Dice(seed);
  let [datagrams, lost] = [0, 0];
  const bad = badNetwork(dice, BADNESS);
  const world = new World((datagram) => {
    const copies = bad(datagram);
    datagrams += 1;
    lost += copies.length === 0 ? 1 : 0;
    return copies;
  });
  const begin_us = world.now_us;
  const replicas = REPLICAS.map(
    (number) => new Replica(world, pool, { number, entropy: dice.bytes(32), ticketLife_s: TICKET_LIFE_S }),
  );
  new Router(world, pool, { servers: [...REPLICAS], selection: "shortestQueue", entropy: dice.bytes(32) });
  const client = new Client(world, pool, () => dice.pick(replicas));
  let next = 1;
  const callNext = (): void => {
    if (next > calls) return;
    const call = drawCall(dice, next++);
    // A copy that a router gets after the answer goes to any replica, and may be carried out there if it is early data.
    const target = !call.isIdempotent && dice.chance(0.3) ? ROUTER : dice.pick(REPLICAS);
    client.call(call, { target, timeout_ms: TIMEOUT_MS });
  };
  client.onEnd = () => world.after(0, callNext);
  for (let at = 0; at < CONCURRENCY; at++) callNext();
  world.run(Number.POSITIVE_INFINITY, () => client.outcomes.size === calls);
  const problems = [...client.problems, ...problemsOf(calls, client, replicas)];
  const virtual_s = (world.now_us - begin_us) / 1e6;
  world.end();
  return { problems, datagrams, lost, tickets: client.ticketsWanted, virtual_s };
}

function drawCall(dice: Dice, number: number): Call {
  const size = (): number => {
    if (dice.chance(0.9)) return dice.between(9, 200);
    return dice.chance(0.8) ? dice.between(200, 3_000) : dice.between(3_000, 40_000);
  };
  return { number, isIdempotent: dice.chance(0.5), requestBytes: size(), answerBytes: size() };
}

function problemsOf(calls: number, client: Client, replicas: readonly Replica[]): string[] {
  const problems: string[] = [];
  for (let number = 1; number <= calls; number++) {
    const outcome = client.outcomes.get(number);
    if (outcome !== "Done") problems.push(`call ${number} ended with ${outcome ?? "nothing"}`);
    const executions = replicas.reduce((sum, { executed }) => sum + (executed.get(number) ?? 0), 0);
    if (executions !== 1) problems.push(`call ${number} was carried out ${executions} times`);
  }
  return problems;
}
