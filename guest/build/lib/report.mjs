/**
 * What the person at the terminal sees: one line for each step, with its time, and errors without a stack.
 */

import process from "node:process";

const interactive = process.stderr.isTTY === true && process.env.CI === undefined;
const coloured = interactive && process.env.NO_COLOR === undefined;

/** Milliseconds between two lines about the same step when the output is a file. */
const QUIET_INTERVAL_MS = 5000;
/** Milliseconds between two redraws of the running line on a terminal. */
const REDRAW_INTERVAL_MS = 200;

/** An error that a person can act upon; its message is the whole explanation. */
export class Problem extends Error {
  name = "Problem";
}

/**
 * @param {number} code
 * @param {string} text
 * @returns {string}
 */
function paint(code, text) {
  return coloured ? `\u001b[${code}m${text}\u001b[0m` : text;
}

/**
 * @param {number} startedAt
 * @returns {string}
 */
function elapsed(startedAt) {
  return `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
}

/**
 * Starts a step that takes time. On a terminal its line stays alive until the step ends; in a file it appears when it
 * starts, about every five seconds, and when it ends.
 *
 * @param {string} title
 */
export function step(title) {
  const startedAt = performance.now();
  let detail = "";
  let lastPrinted = startedAt;
  const draw = () =>
    process.stderr.write(`\r\u001b[K${paint(36, ">")} ${title}${detail} ${elapsed(startedAt)}`);
  const timer = interactive ? setInterval(draw, REDRAW_INTERVAL_MS) : undefined;
  timer?.unref();
  if (interactive) {
    draw();
  } else {
    process.stderr.write(`> ${title}\n`);
  }
  /** @param {string} line */
  const finish = (line) => {
    clearInterval(timer);
    process.stderr.write(`${interactive ? "\r\u001b[K" : ""}${line}\n`);
  };
  return {
    /** @param {string} text how far the step is */
    update(text) {
      detail = `: ${text}`;
      const now = performance.now();
      if (!interactive && now - lastPrinted >= QUIET_INTERVAL_MS) {
        lastPrinted = now;
        process.stderr.write(`  ${title}${detail}\n`);
      }
    },
    /** @param {string} [outcome] what came out of it */
    done(outcome) {
      const result = outcome === undefined ? "" : `: ${outcome}`;
      finish(`${paint(32, interactive ? "\u2713" : "ok")} ${title}${result} (${elapsed(startedAt)})`);
    },
    /** Ends the line of a step whose error is reported elsewhere. */
    failed() {
      finish(`${paint(31, interactive ? "\u2717" : "failed")} ${title} (${elapsed(startedAt)})`);
    },
  };
}

/**
 * Runs a step, ends its line whichever way it goes, and returns its result.
 *
 * @template T
 * @param {string} title
 * @param {(progress: ReturnType<typeof step>) => Promise<T> | T} work
 * @param {(result: T) => string} [describe]
 * @returns {Promise<T>}
 */
export async function during(title, work, describe) {
  const progress = step(title);
  try {
    const result = await work(progress);
    progress.done(describe?.(result));
    return result;
  } catch (error) {
    progress.failed();
    throw error;
  }
}

/** @param {string} line */
export function note(line) {
  process.stderr.write(`${line}\n`);
}

/**
 * Runs a script's main function: a {@link Problem} is printed as one message, anything else with its stack.
 *
 * @param {() => Promise<void>} main
 */
export async function run(main) {
  try {
    await main();
  } catch (error) {
    const text =
      error instanceof Problem ? error.message : error instanceof Error ? error.stack : String(error);
    process.stderr.write(`${paint(31, "error")}: ${text}\n`);
    process.exitCode = 1;
  }
}
