#!/usr/bin/env node
/**
 * Plays every attack against the modules that ship, in wasmtime and in Node: `npm run test:hostile -- [--attack NAME]
 * [--backend NAME] [--seed N] [--quick] [--json FILE]`. The last line counts.
 */

import { spawnSync } from "node:child_process";
import process from "node:process";

import { buildCapsule, buildCore } from "../../guest/build/core.mjs";
import { root } from "../../guest/build/lib/files.mjs";
import { run } from "../../guest/build/lib/report.mjs";

const CARGO = ["run", "--quiet", "--locked", "--release", "--package", "selfsame-hostile", "--"];

await run(async () => {
  await buildCore();
  await buildCapsule();
  const { status } = spawnSync("cargo", [...CARGO, ...process.argv.slice(2)], {
    cwd: root,
    stdio: "inherit",
  });
  process.exitCode = status ?? 1;
});
