#!/usr/bin/env node
/**
 * Floods live members in a network of their own, where strangers have public addresses: `npm run test:floods -- [--host rust|node|deno|workerd|replica]
 * [--seconds N]`. Wants Linux with user namespaces. The last line counts.
 */
import { spawnSync } from "node:child_process";
import path from "node:path";
import process from "node:process";

import { must } from "../../guest/build/lib/command.mjs";
import { root } from "../../guest/build/lib/files.mjs";
import { PROGRAMS } from "../../guest/build/lib/programs.mjs";
import { Problem, run } from "../../guest/build/lib/report.mjs";

/** All of 5.6.0.0/16 is this machine, and what does not say from where it comes is at 5.6.200.1. */
const NETWORK = [
  "ip link set lo up",
  "ip addr add 5.6.200.1/32 dev lo",
  "ip route add local 5.6.0.0/16 dev lo src 5.6.200.1",
  'exec "$@"',
].join(" && ");
const NAMESPACE = ["--user", "--map-root-user", "--net", "sh", "-c"];

await run(async () => {
  if (spawnSync("unshare", [...NAMESPACE, "ip link"]).status !== 0) {
    throw new Problem("there are no user namespaces here: floods want Linux with `unshare` and `ip`");
  }
  await must("cargo", ["build", "--quiet", ...PROGRAMS], { cwd: root, visible: true });
  await must(process.execPath, [path.join(root, "runtime/build/build.mjs")], { cwd: root });
  const floods = path.join(import.meta.dirname, "floods.ts");
  const program = [process.execPath, floods, ...process.argv.slice(2)];
  const { status } = spawnSync("unshare", [...NAMESPACE, NETWORK, "sh", ...program], { stdio: "inherit" });
  process.exitCode = status ?? 1;
});
