// Runs every suite of this folder, whatever the others come to; each runner prints its own counts.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";

/** One after the other: each starts whole rings, and a machine has few cores. */
const TESTS = [
  "conformance",
  "packaging",
  "telemetry",
  "tcp",
  "websocket",
  "five",
  "closed",
  "admission-dns",
  "page",
  "capsules",
  "stores",
  "replicas",
  "rpc",
  "rpc-isolate",
  "rpc-procedures",
  "rpc-http",
  "capsule-1g",
  "crash",
  "damage",
  "notes",
].map((name) => `test/${name}.test.ts`);

const vitest = join(createRequire(import.meta.url).resolve("vitest/package.json"), "../vitest.mjs");
const runs = [
  [vitest, "run"],
  ["--test", "--test-concurrency=1", ...TESTS],
];
const codes = runs.map((args) => {
  const { status } = spawnSync(process.execPath, args, { cwd: import.meta.dirname, stdio: "inherit" });
  return status ?? 1;
});
process.exit(Math.max(...codes));
