#!/usr/bin/env node
/**
 * Fuzzes the core: `npm run fuzz -- [--runs N] [--seed N] [--shards N] [--targets NAME,...] [--grow]`, or
 * `npm run fuzz -- --replay FILE` for one input that failed.
 *
 * Builds the fuzzer with counters on every branch of the core, runs it in several processes whose inputs follow from the
 * seed, and fails on a panic, a trap, a leak, a check that does not hold or memory that grows. `--grow` adds what reached
 * new points to the corpus. Equal runs, seed and shards mean equal inputs.
 */

import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";

import { must } from "../build/lib/command.mjs";
import { cache, root } from "../build/lib/files.mjs";
import { during, note, Problem, run, step } from "../build/lib/report.mjs";
import { runShard } from "./lib/shard.mjs";
import { count, describe, merge } from "./lib/summary.mjs";

const CORPUS = path.join(root, "guest/fuzz/corpus");
const FOUND = path.join(cache, "fuzz");

const OPTIONS = /** @type {const} */ ({
  runs: { type: "string", default: "1000000" },
  seed: { type: "string", default: "1" },
  shards: { type: "string", default: "2" },
  targets: { type: "string" },
  grow: { type: "boolean", default: false },
  replay: { type: "string" },
});

/**
 * @param {string} name
 * @param {string} value
 * @returns {bigint}
 */
function number(name, value) {
  if (!/^\d[\d_]*$/.test(value)) {
    throw new Problem(`--${name} needs a number, not ${value}`);
  }
  return BigInt(value.replaceAll("_", ""));
}

function parse() {
  try {
    return parseArgs({ options: OPTIONS });
  } catch (error) {
    throw new Problem(error instanceof Error ? error.message : String(error));
  }
}

/** @returns {Promise<string>} the path of the fuzzer */
async function build() {
  const args = [
    "build",
    "--locked",
    "--profile",
    "fuzz",
    "--package",
    "selfsame-fuzz",
    "--features",
    "coverage",
  ];
  const env = { RUSTC_WORKSPACE_WRAPPER: path.join(root, "guest/fuzz/rustc") };
  await during("build the fuzzer", () => must("cargo", args, { cwd: root, env, visible: true }));
  const metadata = await must("cargo", ["metadata", "--format-version", "1", "--no-deps"], { cwd: root });
  return path.join(JSON.parse(metadata).target_directory, "fuzz/selfsame-fuzz");
}

/**
 * @param {string} program
 * @param {ReturnType<typeof parse>["values"]} values
 */
async function fuzz(program, values) {
  const runs = number("runs", values.runs);
  const shards = Number(number("shards", values.shards));
  const seed = number("seed", values.seed);
  if (shards < 1 || shards > 64) {
    throw new Problem("--shards needs a number from 1 to 64");
  }
  await rm(FOUND, { recursive: true, force: true });
  await mkdir(FOUND, { recursive: true });
  const title = `fuzz with seed ${seed} in ${shards} processes`;
  const progress = step(title);
  const startedAt = performance.now();
  const done = Array.from({ length: shards }, () => 0);
  const reports = await Promise.all(
    done.map((_, shard) => {
      // The first shards take what does not divide.
      const share = runs / BigInt(shards) + (BigInt(shard) < runs % BigInt(shards) ? 1n : 0n);
      const args = ["--runs", `${share}`, "--seed", `${seed * 1_000n + BigInt(shard)}`, "--corpus", CORPUS];
      args.push(...(values.targets === undefined ? [] : ["--targets", values.targets]));
      args.push(...(values.grow ? ["--grow", path.join(FOUND, `${shard}`)] : []));
      return runShard(program, args, (executions) => {
        done[shard] = executions;
        progress.update(`${done.reduce((sum, each) => sum + each, 0)} of ${runs}`);
      });
    }),
  );
  const seconds = (performance.now() - startedAt) / 1000;
  progress.done();
  if (values.grow) {
    const folders = reports.map((_, shard) => path.join(FOUND, `${shard}`));
    await must(program, ["minimise", ...folders, "--corpus", CORPUS], { cwd: root });
  }
  const total = merge(reports);
  const files = await keepFailures(total.failures);
  process.stdout.write(`${describe(total, seconds, files)}\n${count(total)}\n`);
  process.exitCode = total.failures.length > 0 ? 1 : 0;
}

/**
 * @param {readonly import("./lib/shard.mjs").Failure[]} failures
 * @returns {Promise<(string | undefined)[]>} for each failure the file from which it can be run again
 */
function keepFailures(failures) {
  return Promise.all(
    failures.map(async ({ target, input }, index) => {
      const file = path.join(FOUND, `failure-${index + 1}`);
      if (input === "") {
        return undefined;
      }
      await writeFile(file, `${target} ${input}\n`);
      return path.relative(root, file);
    }),
  );
}

await run(async () => {
  const { values } = parse();
  const program = await build();
  if (values.replay === undefined) {
    await fuzz(program, values);
    return;
  }
  const report = await runShard(program, ["replay", path.resolve(values.replay)], () => {});
  for (const { message } of report.failures) {
    note(message);
  }
  note(report.failures.length > 0 ? "the input fails" : "the input passes");
  process.exitCode = report.failures.length > 0 ? 1 : 0;
});
