#!/usr/bin/env node
/**
 * Builds what the tests need and runs every suite, or those that are named: `npm test -- [NAME...]`. The last line adds
 * up what all runners counted.
 */

import process from "node:process";

import { must } from "../guest/build/lib/command.mjs";
import { root } from "../guest/build/lib/files.mjs";
import { WITH_HOST } from "../guest/build/lib/programs.mjs";
import { during, note, Problem, run } from "../guest/build/lib/report.mjs";
import { buildAll } from "./build.mjs";
import { add, none, summary } from "./lib/counts.mjs";
import { readJson } from "./lib/sources.mjs";
import { runSuite } from "./lib/suite.mjs";
import { workspaces } from "./lib/workspaces.mjs";

/** @typedef {import("./lib/suite.mjs").Suite} Suite */

/** Enough to see why a suite failed; the rest stands in its log. */
const LAST_LINES = 80;
/** Suites that mostly wait for time to pass: they run beside the others. What they wait for is shortened. */
const WAITING = new Map([["test-sleep", { SLEEP_MINUTES: process.env.SLEEP_MINUTES ?? "3" }]]);
const CARGO_TEST = ["cargo", "test", "--locked", "--no-fail-fast"];
const TEST_HOST = [...CARGO_TEST, "--release", ...WITH_HOST.flatMap((name) => ["--package", name])];
/**
 * These run alone, by their own commands: one wants name servers of Debian, one measures at a rate that a busy machine does not keep up
 * with, one moves gigabytes, one kills replicas a thousand times, one wants a network of its own. Of the fourth and fifth the suite of
 * the runtimes has a short form.
 */
const ALONE = ["test:dns", "test:rolling", "test:capsule-1g", "test:crash", "test:recover", "test:floods"];
/**
 * A newcomer installs and compiles for minutes on all platforms: here in Node and on the command line, with what is built. Members are
 * under load for forty minutes: here for less than one, without bars for what they take. A member of 255 is revoked: here of twelve, without
 * a bar for how long the others take. The suites of the RPC play a hundred thousand calls and ten thousand crashes.
 */
const SHORT = new Map([
  ["test:first-use", ["--", "--short", "--built"]],
  ["test:soak", ["--", "--short"]],
  ["test:revoke", ["--", "--short", "--peers", "12"]],
  ["test:rpc-faults", ["--", "--short"]],
  ["test:rpc-replay", ["--", "--short"]],
  ["test:rpc-lossy", ["--", "--short"]],
  ["test:rpc-flood", ["--", "--short"]],
]);
/** What Cargo compiles and tests: it runs beside the suites that Node runs, as either leaves a core idle now and then. */
const OF_CARGO = ["rust", "host", "fuzz"];
/** These say how long something may take, so they run when nothing else does. */
const UNDISTURBED = ["test-heal", "test-soak"];
/** Suites that need nothing built. */
const NEEDS_NO_BUILD = ["ci"];

/** @returns {Promise<Suite[]>} the quick ones first */
async function allSuites() {
  const packages = (await workspaces()).filter(({ scripts }) => scripts.test !== undefined);
  const scripts = Object.keys(readJson("package.json").scripts).filter(
    (name) => name.startsWith("test:") && !ALONE.includes(name),
  );
  return [
    { name: "ci", command: [process.execPath, "--test", ".ci/test/*.test.mjs"] },
    { name: "guest", command: [process.execPath, "--test", "guest/**/*.test.mjs"] },
    {
      name: "rust",
      command: [...CARGO_TEST, "--workspace", ...WITH_HOST.flatMap((name) => ["--exclude", name])],
    },
    // Optimised like the program itself, whose build they share: wasmtime takes minutes to compile.
    {
      name: "host",
      command: TEST_HOST,
    },
    { name: "fuzz", command: ["npm", "run", "--silent", "fuzz", "--", "--runs", "200000", "--seed", "1"] },
    ...packages.map(({ name }) => ({
      name,
      command: ["npm", "run", "--silent", "test", "--workspace", name],
    })),
    ...scripts.map((name) => ({
      name: name.replace(":", "-"),
      command: ["npm", "run", "--silent", name, ...(SHORT.get(name) ?? [])],
    })),
  ];
}

/**
 * @param {readonly Suite[]} suites
 * @param {readonly string[]} names
 * @returns {readonly Suite[]}
 */
function choose(suites, names) {
  const unknown = names.filter((name) => !suites.some((suite) => suite.name === name));
  if (unknown.length > 0) {
    throw new Problem(
      `there is no suite ${unknown.join(", ")}; there are: ${suites.map((suite) => suite.name).join(", ")}`,
    );
  }
  return names.length === 0 ? suites : suites.filter(({ name }) => names.includes(name));
}

/**
 * @param {Suite} suite
 * @returns {Promise<import("./lib/counts.mjs").Counts>}
 */
async function perform(suite) {
  note(`> ${suite.name}`);
  const startedAt = performance.now();
  const { counts, complaint, output, log } = await runSuite(suite, WAITING.get(suite.name));
  const seconds = `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
  const label = complaint === undefined ? "ok" : "FAILED";
  process.stdout.write(
    `${label.padEnd(8)}${suite.name.padEnd(22)}${seconds.padStart(8)}  ${summary(counts)}\n`,
  );
  if (complaint !== undefined) {
    const last = output.trimEnd().split("\n").slice(-LAST_LINES).join("\n");
    process.stdout.write(`${last.replaceAll(/^/gm, "    ")}\n    ${complaint}; all of it: ${log}\n`);
    process.stdout.write(`    repeat: npm test -- ${suite.name}\n`);
  }
  return counts;
}

/**
 * @param {readonly Suite[]} suites
 * @returns {Suite[][]} those that run one after the other, beside the others
 */
function lanesOf(suites) {
  const waiting = suites.filter(({ name }) => WAITING.has(name));
  const ofCargo = suites.filter(({ name }) => OF_CARGO.includes(name));
  const others = suites.filter((suite) => !waiting.includes(suite) && !ofCargo.includes(suite));
  return [...waiting.map((suite) => [suite]), ofCargo, others];
}

/**
 * Builds everything, and the tests of the host: while Cargo builds these, suites that build what they start would wait for it.
 *
 * @param {readonly Suite[]} suites
 */
async function buildFor(suites) {
  if (suites.every(({ name }) => NEEDS_NO_BUILD.includes(name))) {
    return;
  }
  await buildAll();
  if (suites.some(({ command }) => command === TEST_HOST)) {
    const [cargo = "", ...args] = TEST_HOST;
    await during("the tests of the wasmtime host", () =>
      must(cargo, [...args, "--no-run"], { cwd: root, visible: true }),
    );
  }
}

/**
 * @param {readonly Suite[]} suites
 * @returns {Promise<import("./lib/counts.mjs").Counts>}
 */
async function performAll(suites) {
  const total = none();
  for (const suite of suites) {
    add(total, await perform(suite));
  }
  return total;
}

await run(async () => {
  const suites = choose(await allSuites(), process.argv.slice(2));
  await buildFor(suites);
  const total = none();
  const undisturbed = suites.filter(({ name }) => UNDISTURBED.includes(name));
  const lanes = lanesOf(suites.filter((suite) => !undisturbed.includes(suite)));
  for (const counts of await Promise.all(lanes.map(performAll))) {
    add(total, counts);
  }
  add(total, await performAll(undisturbed));
  process.stdout.write(`${summary(total)}\n`);
  process.exitCode = total.failed > 0 ? 1 : 0;
});
