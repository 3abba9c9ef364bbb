/**
 * Kills a replica in the middle of calls, a trial for each seed:
 *
 *     npm run test:rpc-faults -- [--trials N] [--seed N] [--short]
 *
 * `--trials 1 --seed N` plays one trial again.
 */
import { MACHINES, playTrial } from "./faults.ts";
import { InstancePool } from "./modules.ts";
import { numbersFrom } from "./options.ts";
import { Report } from "./report.ts";

const { trials, seed } = numbersFrom({ trials: 10_000, seed: 1 }, { trials: 500 });
const pool = await InstancePool.of(MACHINES);
const report = new Report();
const outcomes = new Map<string, number>();
let underWay = 0;
let beingCarriedOut = 0;
for (let at = 0; at < trials; at++) {
  const trial = playTrial(pool, seed + at);
  report.count(trial.problems.length === 0);
  underWay += trial.underWay > 0 ? 1 : 0;
  beingCarriedOut += trial.beingCarriedOut > 0 ? 1 : 0;
  for (const [outcome, count] of trial.outcomes) outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + count);
  for (const problem of trial.problems) report.say(`seed ${seed + at}: ${problem}`);
}
report.say(
  `of ${trials} trials a call was under way at the crash in ${underWay}, at that replica in ${beingCarriedOut}`,
);
report.say("calls ended with");
for (const [outcome, count] of [...outcomes].sort()) report.say(`${`${count}`.padStart(8)} ${outcome}`);
report.finish();
