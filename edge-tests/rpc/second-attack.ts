import { Client } from "./client.ts";
import { Dice } from "./dice.ts";
import type { InstancePool } from "./modules.ts";
import { Replica } from "./replica.ts";
import { World } from "./world.ts";

const SECOND_US = 1_000_000;
const DELAY_US = 200;
const [A, B] = [1, 2];
const TIMEOUT_MS = 10_000;

/** What happens to replica A after it has carried the call out. */
export type Turn = "lives" | "crashes" | "restarts";

/**
 * Plays the second attack of RFC 8446, section 8: replica A carries a call out, its answer is held back, and replica B
 * gets all that the client sends until it gives up. Returns what went wrong.
 */
export function secondAttack(pool: InstancePool, turn: Turn, idempotentService: boolean): string[] {
  const dice = new Dice(1);
  let isUnderAttack = false;
  // No answer of A passes, B gets all that A gets, and its answers seem to be those of A.
  const world = new World(({ from, to, bytes }) => {
    if (!isUnderAttack) return [DELAY_US];
    if (to === A) world.after(DELAY_US, () => world.deliver({ from, to: B, bytes }));
    if (from === B) world.after(DELAY_US, () => world.deliver({ from: A, to, bytes }));
    return to === A ? [DELAY_US] : [];
  });
  const start = (number: number, notBefore_ms = 0): Replica =>
    new Replica(world, pool, {
      number,
      entropy: dice.bytes(32),
      idempotent: idempotentService,
      notBefore_ms,
      handle: ({ number: call }) => ({ after_us: call === 2 ? SECOND_US / 10 : 0 }),
    });
  const lives = [start(A), start(B)];
  const [a, b] = lives;
  if (a === undefined || b === undefined) throw new Error("two replicas were started");
  const client = new Client(world, pool, () => b);
  const call = (number: number): void =>
    client.call(
      { number, isIdempotent: false, requestBytes: 100, answerBytes: 100 },
      { target: A, timeout_ms: TIMEOUT_MS },
    );
  call(1);
  world.run(world.now_us + SECOND_US);
  isUnderAttack = true;
  call(2);
  world.after(SECOND_US / 20, () => {
    if (turn !== "lives") world.remove(a);
    if (turn === "restarts") lives.push(start(A, world.now_us / 1_000));
  });
  world.run(world.now_us + 2 * TIMEOUT_MS * 1_000);
  const problems = [...client.problems];
  if (client.outcomes.get(1) !== "Done")
    problems.push(`the call before ended with ${client.outcomes.get(1)}`);
  if (client.outcomes.get(2) !== "OutcomeUnknown")
    problems.push(`the client was told ${client.outcomes.get(2)}`);
  if (a.executed.get(2) !== 1) problems.push(`replica A has carried it out ${a.executed.get(2) ?? 0} times`);
  const others = lives.filter((life) => life !== a && life.executed.has(2));
  if (others.length > 0) problems.push("it was carried out once more");
  world.end();
  return problems;
}
