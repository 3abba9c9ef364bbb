import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { DATA } from "./cluster.ts";

/** The Python of an environment with the packages that a list pins by hash; it is made once for each list. */
export function pythonWith(requirements: string): string {
  const hash = createHash("sha256").update(readFileSync(requirements)).digest("hex").slice(0, 16);
  const home = join(DATA, `python-${hash}`);
  const python = join(home, process.platform === "win32" ? "Scripts/python.exe" : "bin/python");
  const complete = join(home, "complete");
  if (existsSync(complete)) return python;
  rmSync(home, { recursive: true, force: true });
  must(process.platform === "win32" ? "python" : "python3", ["-m", "venv", home]);
  const install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"];
  must(python, [...install, "-r", requirements]);
  writeFileSync(complete, "");
  return python;
}

function must(command: string, args: readonly string[]): void {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8" });
  if (status === 0) return;
  const why = error?.message ?? `${stdout}${stderr}`;
  throw new Error(
    `${command} ${args.join(" ")} failed: install Python 3.10 or newer with its venv module (Debian: apt install python3-venv)\n${why}`,
  );
}
