#!/usr/bin/env node
/**
 * Shows that a fresh clone works: `.ci/fresh [--start-only] [--keep]`. In a new clone of what is committed and a new home,
 * with nothing downloaded before, `npm start` alone must reach its curl lines in 15 minutes and both must be answered as
 * they say; a second start must take 15 seconds; then `npm test` alone must pass. Prints the times.
 */

import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";

import { attempt, must } from "../guest/build/lib/command.mjs";
import { root } from "../guest/build/lib/files.mjs";
import { note, Problem, run } from "../guest/build/lib/report.mjs";
import { freshHome } from "./lib/fresh-home.mjs";
import { Program, stillRunning } from "./lib/program.mjs";

const FIRST_START_MS = 15 * 60_000;
const SECOND_START_MS = 15_000;
/** A suite that takes longer would not fit into an hour together with a build. */
const TEST_MS = 55 * 60_000;
/** The line that `npm start` ends with. */
const READY = /Ctrl-C stops everything/;
/** A command that it prints, with the status that it says will come. */
const CURL = /^\s*(curl .*?)\s+# (\d{3})\s*$/gm;

/** @typedef {{ cwd: string, env: NodeJS.ProcessEnv }} Place */
/** @typedef {{ what: string, seconds: number, limit: number, complaint: string | undefined }} Step */

/**
 * Starts everything, tries what it printed, and stops it.
 *
 * @param {string} what
 * @param {Place} place
 * @param {number} limitMs
 * @returns {Promise<Step>}
 */
async function start(what, place, limitMs) {
  note(`> ${what}: npm start`);
  const startedAt = performance.now();
  const program = new Program(["npm", "start"], place);
  // Some more than the limit, so that a start that is late says by how much.
  const isReady = await program.prints(READY, limitMs * 2);
  const seconds = (performance.now() - startedAt) / 1000;
  const complaint = isReady ? await tryCommands(program.output) : "it did not get ready";
  const hasStopped = await program.stop();
  const left = await stillRunning(place.cwd);
  return {
    what,
    seconds,
    limit: limitMs / 1000,
    complaint:
      complaint ??
      (hasStopped ? undefined : "Ctrl-C did not stop it") ??
      (left.length > 0 ? `it left running: ${left.join(", ")}` : undefined),
  };
}

/**
 * @param {string} output
 * @returns {Promise<string | undefined>} what is wrong with the answers
 */
async function tryCommands(output) {
  const commands = [...output.matchAll(CURL)];
  if (commands.map(([, , status]) => status).join() !== "200,401") {
    return "it did not print one curl line for 200 and one for 401";
  }
  for (const [, command = "", status] of commands) {
    const result = await attempt("sh", ["-c", command]);
    const answered = /^HTTP\/\S+ (\d{3})/m.exec(result?.stdout ?? "")?.[1];
    note(`  ${answered ?? "no answer"} for ${command}`);
    if (answered !== status) {
      return `${command} was answered with ${answered ?? "nothing"}, not ${status}`;
    }
  }
  return undefined;
}

/**
 * @param {Place} place
 * @returns {Promise<Step>}
 */
async function test(place) {
  note("> npm test");
  const startedAt = performance.now();
  const program = new Program(["npm", "test"], place);
  const timer = setTimeout(() => void program.stop(), TEST_MS);
  const code = await program.ended;
  clearTimeout(timer);
  const last = program.output.trimEnd().split("\n").at(-1);
  return {
    what: `npm test (${last})`,
    seconds: (performance.now() - startedAt) / 1000,
    limit: TEST_MS / 1000,
    complaint: code === 0 ? undefined : `it ended with ${code}`,
  };
}

/** @param {Step} step */
function judge({ what, seconds, limit, complaint }) {
  const late = seconds > limit ? "it took too long" : undefined;
  const verdict = complaint ?? late;
  const line = `${what.padEnd(48)} ${seconds.toFixed(1).padStart(7)} s of ${limit} s`;
  process.stdout.write(
    `${verdict === undefined ? "ok    " : "FAILED"}  ${line}${verdict ? `: ${verdict}` : ""}\n`,
  );
  return verdict === undefined;
}

/**
 * @param {string} folder
 * @param {boolean} isStartOnly
 * @returns {Promise<Step[]>}
 */
async function perform(folder, isStartOnly) {
  const cwd = path.join(folder, "selfsame");
  await must("git", ["clone", "--quiet", "--no-hardlinks", root, cwd]);
  const home = path.join(folder, "home");
  await mkdir(home);
  const place = { cwd, env: await freshHome(home) };
  const steps = [await start("first start", place, FIRST_START_MS)];
  if (steps[0]?.complaint === undefined) {
    steps.push(await start("second start", place, SECOND_START_MS));
  }
  return isStartOnly ? steps : [...steps, await test(place)];
}

await run(async () => {
  const { values } = parseArgs({
    options: { "start-only": { type: "boolean", default: false }, keep: { type: "boolean", default: false } },
  });
  if ((await must("git", ["status", "--porcelain"], { cwd: root })) !== "") {
    note("what is not committed is not in the clone");
  }
  const folder = await mkdtemp(path.join(tmpdir(), "selfsame-fresh-"));
  try {
    const steps = await perform(folder, values["start-only"]);
    const good = steps.map(judge).filter(Boolean);
    if (good.length < steps.length) {
      throw new Problem(`${steps.length - good.length} of ${steps.length} steps failed`);
    }
  } finally {
    if (values.keep) {
      note(`kept: ${folder}`);
    } else {
      await rm(folder, { recursive: true, force: true });
    }
  }
});
