import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { resolve } from "node:path";

/** The repository. */
export const ROOT: string = resolve(import.meta.dirname, "../..");

/** Deno as npm installed it. */
export const DENO: string = createRequire(import.meta.url).resolve(
  process.platform === "win32" ? "deno/deno.exe" : "deno/deno",
);

/** Runs a program to its end and resolves with what it printed; rejects with that when it fails. */
export function run(
  command: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv; timeout?: number } = {},
): Promise<string> {
  const { cwd = ROOT, env = process.env, timeout = 600_000 } = options;
  return new Promise((done, reject) => {
    execFile(
      command,
      [...args],
      { cwd, env, timeout, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) => {
        if (error === null) done(stdout);
        else reject(new Error(`${command} ${args.join(" ")} failed: ${error.message}\n${stdout}\n${stderr}`));
      },
    );
  });
}
