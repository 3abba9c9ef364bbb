#!/usr/bin/env node
/** Prints what each operation costs natively and in WebAssembly. Run: `node guest/sodium/tests/wasm/speed.mjs`. */

import process from "node:process";

import { must } from "../../../build/lib/command.mjs";
import { root } from "../../../build/lib/files.mjs";
import { run } from "../../../build/lib/report.mjs";
import { compileTestModule, instantiate } from "./module.mjs";

/** Long enough that the clock's resolution and a stray interrupt do not show. */
const RUN_MS = 100;
const ROUNDS = 5;

/**
 * @param {import('./module.mjs').Exports} wasm
 * @param {number} operation
 * @returns {number} nanoseconds for one
 */
function time(wasm, operation) {
  let best = Number.POSITIVE_INFINITY;
  let count = 1;
  for (let round = 0; round < ROUNDS; ) {
    const start = performance.now();
    wasm.repeat(operation, count);
    const elapsed = performance.now() - start;
    if (elapsed < RUN_MS) {
      count *= 2;
    } else {
      best = Math.min(best, (elapsed * 1e6) / count);
      round++;
    }
  }
  return best;
}

await run(async () => {
  const wasm = instantiate(await compileTestModule());
  const args = [
    "run",
    "--release",
    "--quiet",
    "--locked",
    "--package",
    "selfsame-sodium",
    "--example",
    "speed",
  ];
  const native = await must("cargo", args, { cwd: root, visible: true });
  const lines = native.trimEnd().split("\n");
  process.stdout.write(
    `${"operation".padEnd(20)} ${"native us".padStart(10)} ${"wasm us".padStart(10)} ratio\n`,
  );
  for (const [operation, line] of lines.entries()) {
    const [name = "", nanoseconds = ""] = line.split("\t");
    const here = time(wasm, operation);
    const columns = [Number(nanoseconds) / 1000, here / 1000].map((us) => us.toFixed(2).padStart(10));
    const ratio = (here / Number(nanoseconds)).toFixed(2);
    process.stdout.write(`${name.padEnd(20)} ${columns.join(" ")} ${ratio}\n`);
  }
});
