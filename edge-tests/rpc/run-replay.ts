/**
 * Plays all datagrams of a recorded conversation again:
 *
 *     npm run test:rpc-replay -- [--seeds N] [--seed N] [--short]
 */
import { MACHINES } from "./conversation.ts";
import { InstancePool } from "./modules.ts";
import { numbersFrom } from "./options.ts";
import { attack, ORDERS, SCENARIOS } from "./replay.ts";
import { Report } from "./report.ts";
import { secondAttack } from "./second-attack.ts";

const { seeds, seed: first } = numbersFrom({ seeds: 50, seed: 1 }, { seeds: 1 });
// One more for a replica that comes later.
const pool = await InstancePool.of(MACHINES + 1);
const report = new Report();

function attackWithAllSeeds(scenario: string, order: string, idempotent: boolean): void {
  const problems: string[] = [];
  let [executed, replayed] = [0, 0];
  for (let seed = first; seed < first + seeds; seed++) {
    const outcome = attack(pool, scenario, order, { seed, idempotent });
    problems.push(...outcome.problems.map((problem) => `seed ${seed}: ${problem}`));
    executed += outcome.executed;
    replayed += outcome.replayed;
  }
  const service = idempotent ? "idempotent calls at once" : "all calls bound";
  report.check(`${scenario}, ${order}, ${service}: ${replayed} copies, ${executed} carried out`, problems);
}

for (const idempotent of [true, false]) {
  for (const scenario of Object.keys(SCENARIOS)) {
    for (const order of Object.keys(ORDERS)) attackWithAllSeeds(scenario, order, idempotent);
  }
  for (const turn of ["lives", "crashes", "restarts"] as const) {
    const what = `an answer is held back and the client led to another replica, the first one ${turn}`;
    report.check(what, secondAttack(pool, turn, idempotent));
  }
}
report.finish();
