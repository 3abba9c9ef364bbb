#!/usr/bin/env node
/**
 * Revokes a member of a closed network over sockets of this machine: `npm run test:revoke -- [--peers N] [--short]`. The last line
 * counts.
 */

import { spawnSync } from "node:child_process";
import process from "node:process";

import { buildModules } from "../../guest/build/core.mjs";
import { must } from "../../guest/build/lib/command.mjs";
import { root } from "../../guest/build/lib/files.mjs";
import { PROGRAMS, programFile } from "../../guest/build/lib/programs.mjs";
import { run } from "../../guest/build/lib/report.mjs";

await run(async () => {
  await buildModules();
  await must("cargo", ["build", "--quiet", ...PROGRAMS], { cwd: root, visible: true });
  const { status } = spawnSync(programFile("selfsame-revoke"), process.argv.slice(2), {
    cwd: root,
    stdio: "inherit",
  });
  process.exitCode = status ?? 1;
});
