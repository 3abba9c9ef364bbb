#!/usr/bin/env node
/**
 * Runs every check, or those that are named: `npm run check -- [NAME...]`. Prints one line for each with its time, what
 * it found with the command that repeats it, and at the end how many passed.
 */

import process from "node:process";

import { Problem, run } from "../guest/build/lib/report.mjs";
import { core } from "./checks/core.mjs";
import { labelsChecks } from "./checks/labels.mjs";
import { modules } from "./checks/modules.mjs";
import { onePathChecks } from "./checks/one-path.mjs";
import { packages } from "./checks/packages.mjs";
import { rust } from "./checks/rust.mjs";
import { tablesChecks } from "./checks/tables.mjs";
import { text } from "./checks/text.mjs";
import { typescript } from "./checks/typescript.mjs";
import { none, summary } from "./lib/counts.mjs";

/** @typedef {import("./lib/check.mjs").Check} Check */

/** The quick ones first: whoever forgot something hears of it soon. */
const CHECKS = [
  ...text,
  ...tablesChecks,
  ...labelsChecks,
  ...modules,
  ...packages,
  ...typescript,
  ...core,
  ...onePathChecks,
  ...rust,
];

/**
 * @param {readonly string[]} names
 * @returns {readonly Check[]}
 */
function choose(names) {
  const unknown = names.filter((name) => !CHECKS.some((check) => check.name === name));
  if (unknown.length > 0) {
    const known = CHECKS.map((check) => check.name).join(", ");
    throw new Problem(`there is no check ${unknown.join(", ")}; there are: ${known}`);
  }
  return names.length === 0 ? CHECKS : CHECKS.filter((check) => names.includes(check.name));
}

/** What a person reads of one check before the rest only scrolls by. */
const MAX_PROBLEM_LINES = 60;

/**
 * @param {readonly string[]} problems
 * @returns {string}
 */
function shorten(problems) {
  const lines = problems.join("\n").split("\n");
  const rest = lines.length - MAX_PROBLEM_LINES;
  return [...lines.slice(0, MAX_PROBLEM_LINES), ...(rest > 0 ? [`... and ${rest} lines more`] : [])].join(
    "\n",
  );
}

/** @param {string} text */
function say(text) {
  process.stdout.write(`${text}\n`);
}

/**
 * @param {Check} check
 * @returns {Promise<keyof import("./lib/counts.mjs").Counts>}
 */
async function perform(check) {
  const startedAt = performance.now();
  const finding = await Promise.resolve()
    .then(check.run)
    .catch((/** @type {unknown} */ error) => {
      const unexpected = error instanceof Error ? error.stack : String(error);
      return {
        problems: [error instanceof Problem ? error.message : `${unexpected}`],
        note: undefined,
        skipped: undefined,
      };
    });
  const seconds = `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
  const outcome =
    finding.problems.length > 0 ? "failed" : finding.skipped === undefined ? "passed" : "skipped";
  const detail = finding.skipped ?? finding.note;
  const label = { passed: "ok", failed: "FAILED", skipped: "skipped" }[outcome];
  say(
    `${label.padEnd(8)}${check.name.padEnd(18)}${seconds.padStart(8)}  ${check.what}${detail ? `: ${detail}` : ""}`,
  );
  if (outcome === "failed") {
    say(shorten(finding.problems).replaceAll(/^/gm, "    "));
    say(`    repeat: npm run check -- ${check.name}`);
  }
  return outcome;
}

await run(async () => {
  const counts = none();
  for (const check of choose(process.argv.slice(2))) {
    counts[await perform(check)] += 1;
  }
  say(summary(counts));
  process.exitCode = counts.failed > 0 ? 1 : 0;
});
