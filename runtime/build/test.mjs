// Runs the unit tests under the Node that the workspace pins (24: it runs TypeScript and has node:sqlite), and the
// store contract once more under Deno.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const tests = readdirSync(`${root}/test`).filter((file) => file.endsWith(".test.ts"));
const result = spawnSync(process.execPath, ["--test", ...tests.map((file) => `test/${file}`)], {
  cwd: root,
  stdio: "inherit",
});
process.exit(result.status ?? 1);
