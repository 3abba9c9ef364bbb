/** How many tests a run had, read from what its runner printed. */

import { stripVTControlCharacters } from "node:util";

/** @typedef {{ passed: number, failed: number, skipped: number }} Counts */

/** The last line of our own runners. */
const OWN = /^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/;

/**
 * @param {Counts} counts
 * @returns {string} the line that ends every runner of this repository
 */
export function summary({ passed, failed, skipped }) {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

/** @returns {Counts} */
export function none() {
  return { passed: 0, failed: 0, skipped: 0 };
}

/**
 * @param {Counts} total
 * @param {Partial<Counts>} more added to it
 */
export function add(total, more) {
  total.passed += more.passed ?? 0;
  total.failed += more.failed ?? 0;
  total.skipped += more.skipped ?? 0;
}

/**
 * Adds up what every runner in an output counted. An output that ends with a summary of our own has added up already.
 *
 * @param {string} output
 * @returns {Counts}
 */
export function parseCounts(output) {
  const lines = stripVTControlCharacters(output)
    .split(/\r?\n/)
    .map((line) => line.trim());
  const own = OWN.exec(lines.findLast((line) => line !== "") ?? "");
  if (own !== null) {
    return { passed: Number(own[1]), failed: Number(own[2]), skipped: Number(own[3] ?? 0) };
  }
  const total = none();
  for (const [index, line] of lines.entries()) {
    for (const parse of [cargo, node, vitest, deno]) {
      add(total, parse(line) ?? {});
    }
    add(total, python(line, lines.slice(index + 1)) ?? {});
  }
  return total;
}

/**
 * @param {string} line
 * @returns {Counts | undefined}
 */
function cargo(line) {
  const found = /^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;/.exec(line);
  return found === null
    ? undefined
    : { passed: Number(found[1]), failed: Number(found[2]), skipped: Number(found[3]) };
}

/** Node's `spec` and `tap` reporters. */
const NODE_KEYS = new Map([
  ["pass", "passed"],
  ["fail", "failed"],
  ["cancelled", "failed"],
  ["skipped", "skipped"],
  ["todo", "skipped"],
]);

/**
 * @param {string} line
 * @returns {Partial<Counts> | undefined}
 */
function node(line) {
  const found = /^(?:#|\u2139) (pass|fail|cancelled|skipped|todo) (\d+)$/.exec(line);
  return found === null ? undefined : { [NODE_KEYS.get(found[1] ?? "") ?? ""]: Number(found[2]) };
}

/**
 * @param {string} line
 * @returns {Counts | undefined}
 */
function vitest(line) {
  const found = /^Tests {2,}(.*) \(\d+\)$/.exec(line);
  return found === null
    ? undefined
    : {
        passed: numberBefore("passed", found[1] ?? ""),
        failed: numberBefore("failed", found[1] ?? ""),
        skipped: numberBefore("skipped", found[1] ?? "") + numberBefore("todo", found[1] ?? ""),
      };
}

/**
 * @param {string} line
 * @returns {Counts | undefined}
 */
function deno(line) {
  const found = /^(?:ok|FAILED) \| (.*) \([^()]*\)$/.exec(line);
  return found === null
    ? undefined
    : {
        passed: numberBefore("passed", found[1] ?? ""),
        failed: numberBefore("failed", found[1] ?? ""),
        skipped: numberBefore("ignored", found[1] ?? ""),
      };
}

/**
 * @param {string} line
 * @param {readonly string[]} following
 * @returns {Counts | undefined}
 */
function python(line, following) {
  const found = /^Ran (\d+) tests? in /.exec(line);
  if (found === null) {
    return undefined;
  }
  const verdict = following.find((text) => /^(OK|FAILED)\b/.test(text)) ?? "";
  /** @param {string} what */
  const count = (what) => Number(new RegExp(`\\b${what}=(\\d+)`).exec(verdict)?.[1] ?? 0);
  const failed = count("failures") + count("errors") + count("unexpected successes");
  const skipped = count("skipped") + count("expected failures");
  return { passed: Number(found[1]) - failed - skipped, failed, skipped };
}

/**
 * @param {string} word
 * @param {string} text such as `1 failed | 4 passed`
 * @returns {number}
 */
function numberBefore(word, text) {
  return Number(new RegExp(`(\\d+) ${word}\\b`).exec(text)?.[1] ?? 0);
}
