/**
 * Floods a replica with garbage:
 *
 *     npm run test:rpc-flood -- [--rounds N] [--datagrams N] [--seed N] [--short]
 *
 * A short run sets no bar on the processor's time, which a busy machine does not keep.
 */
import { MACHINES as AMPLIFYING, amplifiedExchanges } from "./amplification.ts";
import { Flood, MACHINES } from "./flood.ts";
import { InstancePool } from "./modules.ts";
import { numbersFrom } from "./options.ts";
import { Report } from "./report.ts";

/**
 * Garbage costs at most so much of a valid first request, which is what strangers compete with. What comes down to one
 * tag that is wrong costs a third of a later request, which comes down to two that are right.
 */
const MOST = 0.2;
/** A page of WebAssembly's memory. */
const PAGE = 65_536;

const full = { rounds: 31, datagrams: 1_000_000, seed: 1 };
const { rounds, datagrams, seed, isShort } = numbersFrom(full, { rounds: 3, datagrams: 50_000 });
const pool = await InstancePool.of(MACHINES + AMPLIFYING);
const report = new Report();
const flood = new Flood(pool, seed);
report.say("        ns  of a first, of a later valid request");
for (const { kind, ns, toFirst, toLater } of flood.costs(rounds)) {
  const line = `${`${Math.round(ns)}`.padStart(6)}  ${toFirst.toFixed(2)}  ${toLater.toFixed(2)}  ${kind}`;
  if (isShort || kind.startsWith("a valid")) report.say(`    ${line}`);
  else report.check(line, toFirst <= MOST ? [] : [`the bar is ${MOST} of a first one`]);
}
const { problems, grownBytes } = flood.serveDuring(datagrams);
report.check(`an honest client is answered during ${datagrams} datagrams of garbage`, problems);
const flat = grownBytes <= PAGE ? [] : [`it grew by ${grownBytes} bytes`];
report.check("the replica's memory stays as large as it is", flat);
report.check(
  "three times the bytes of garbage at most go to an address that is not proven",
  flood.amplified(),
);
report.check("and of a captured request, whatever the answer is", amplifiedExchanges(pool, seed));
report.finish();
