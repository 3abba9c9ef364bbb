/**
 * Makes calls over a network that loses, copies and reorders a tenth of what is sent, both ways:
 *
 *     npm run test:rpc-lossy -- [--calls N] [--seed N] [--short]
 */
import { callOverLossyNetwork, MACHINES } from "./lossy.ts";
import { InstancePool } from "./modules.ts";
import { numbersFrom } from "./options.ts";
import { Report } from "./report.ts";

const { calls, seed } = numbersFrom({ calls: 100_000, seed: 1 }, { calls: 3_000 });
const report = new Report();
const lossy = callOverLossyNetwork(await InstancePool.of(MACHINES), seed, calls);
const { datagrams, lost, tickets, virtual_s } = lossy;
report.say(
  `${datagrams} datagrams, of which ${lost} were lost, in ${virtual_s.toFixed(0)} s; ${tickets} tickets asked for`,
);
report.check(`${calls} calls, each answered and carried out once`, lossy.problems);
report.finish();
