/**
 * A program in Python and one in Go, neither of which knows of a mesh, call each other through two sidecars: all that
 * they use is the HTTP of their standard libraries, and the proxy that their environment names.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";

import { run } from "../lib/run.ts";
import { type Program, type Sidecar, start, startSidecar } from "../lib/sidecar.ts";

const PROGRAMS = join(import.meta.dirname, "../proxy");
/** What each program tries, in its order. */
const CHECKS = [
  "plain",
  "not_found",
  "large_answer",
  "large_request",
  "streaming_answer",
  "streaming_request",
  "concurrent",
  "tunnel",
  "nobody",
  "deadline",
  "elsewhere",
];

/** How a program is run. */
type Language = "python" | "go";

let folder: string;
let commands: Record<Language, readonly [command: string, ...args: string[]]>;
const programs: Program[] = [];
const sidecars: Partial<Record<Language, Sidecar>> = {};

/** The first of these commands that runs. */
function find(names: readonly string[], version: string, remedy: string): string {
  for (const name of names) {
    try {
      execFileSync(name, [version], { stdio: "ignore" });
      return name;
    } catch {
      // The next one may be there.
    }
  }
  throw new Error(`there is no ${names.join(" or ")}: ${remedy}`);
}

/** Starts a program that serves, and a sidecar beside it. */
async function serve(language: Language, first?: Sidecar): Promise<Sidecar> {
  const [command, ...args] = commands[language];
  const program = start(`the program in ${language}`, command, [...args, "serve"]);
  programs.push(program);
  const port = await program.line(() => true);
  const sidecar = await startSidecar({
    data: join(folder, `${language}-data`),
    expose: `${language}=http://127.0.0.1:${port}`,
    ...(first === undefined ? {} : { join: first.join }),
  });
  sidecars[language] = sidecar;
  return sidecar;
}

before(async () => {
  const python = find(
    process.platform === "win32" ? ["python"] : ["python3", "python"],
    "--version",
    "install Python 3.10 or newer (Debian: apt-get install python3)",
  );
  const go = find(
    ["go"],
    "version",
    "install Go 1.19 or newer (Debian: apt-get update && apt-get install golang-go; else https://go.dev/dl)",
  );
  folder = await mkdtemp(join(tmpdir(), "selfsame-proxy-"));
  const built = join(folder, process.platform === "win32" ? "program.exe" : "program");
  await run(go, ["build", "-o", built, join(PROGRAMS, "program.go")]);
  commands = { python: [python, join(PROGRAMS, "program.py")], go: [built] };
  const first = await serve("python");
  await serve("go", first);
});

after(async () => {
  // The second sidecar leaves the ring while the first is there to hear it.
  for (const sidecar of [sidecars.go, sidecars.python]) await sidecar?.stop();
  for (const program of programs) await program.stop();
  if (folder !== undefined) await rm(folder, { recursive: true, force: true });
});

/** What works when the program of one language calls that of the other. */
async function call(language: Language, other: Language): Promise<string[]> {
  const [command, ...args] = commands[language];
  const sidecar = sidecars[language];
  assert(sidecar !== undefined, "the sidecar runs");
  const env: NodeJS.ProcessEnv = { ...process.env, http_proxy: sidecar.url };
  for (const name of ["HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"]) delete env[name];
  const printed = await run(command, [...args, "call", `http://${other}.mesh`, sidecar.id], { env });
  return printed.trim().split(/\r?\n/);
}

for (const [language, other] of [
  ["python", "go"],
  ["go", "python"],
] as const) {
  describe(`the program in ${language} calls the one in ${other}`, () => {
    let lines: readonly string[] = [];
    before(async () => {
      lines = await call(language, other);
    });
    for (const check of CHECKS) {
      it(check, () => assert(lines.includes(`ok ${check}`), lines.join("\n")));
    }
    it("and nothing else is tried", () => assert.equal(lines.length, CHECKS.length));
  });
}
