#!/usr/bin/env node
/**
 * Builds everything that is missing or out of date: the modules, the npm package, the bundles of the workers and the
 * wasmtime host. `npm run build`.
 */

import process from "node:process";
import { fileURLToPath } from "node:url";

import { buildModules } from "../guest/build/core.mjs";
import { must } from "../guest/build/lib/command.mjs";
import { root } from "../guest/build/lib/files.mjs";
import { PROGRAMS } from "../guest/build/lib/programs.mjs";
import { during, run } from "../guest/build/lib/report.mjs";
import { workspaces } from "./lib/workspaces.mjs";

/** Builds everything. */
export async function buildAll() {
  await buildModules();
  for (const { name, scripts } of await workspaces()) {
    if (scripts.build !== undefined) {
      await during(`the package ${name}`, () =>
        must("npm", ["run", "--silent", "build", "--workspace", name], { cwd: root }),
      );
    }
  }
  // Cargo shows its own progress.
  await during("the wasmtime host (the first time this takes some minutes)", () =>
    must("cargo", ["build", ...PROGRAMS], { cwd: root, visible: true }),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await run(buildAll);
}
