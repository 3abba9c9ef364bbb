import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { ROOT, run } from "./run.ts";

/** Runs npm as it came with this Node, or as it is installed. */
const NPM = process.platform === "win32" ? "npm.cmd" : "npm";

/** Packs `selfsame` as it would be published and returns the file. */
export async function pack(folder: string): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const printed = await run(NPM, ["pack", "--silent", "--pack-destination", folder], {
    cwd: join(ROOT, "runtime"),
  });
  return join(folder, printed.trim().split("\n").at(-1) ?? "");
}

/** A project of somebody else's, outside of the repository, with the packed package installed in it. */
export class Project {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** Makes a project of these files and installs the packed package, with what else it needs. */
  static async create(
    tarball: string,
    files: Readonly<Record<string, string>>,
    others: Readonly<Record<string, string>> = {},
  ): Promise<Project> {
    const project = new Project(mkdtempSync(join(tmpdir(), "selfsame-packaging-")));
    const dependencies = { selfsame: `file:${tarball}`, ...others };
    project.write("package.json", JSON.stringify({ private: true, type: "module", dependencies }));
    for (const [path, text] of Object.entries(files)) project.write(path, text);
    await project.run(NPM, [
      "install",
      "--silent",
      "--no-audit",
      "--no-fund",
      "--prefer-offline",
      "--no-package-lock",
    ]);
    return project;
  }

  /** Writes a file. */
  write(path: string, text: string): void {
    const file = this.path(path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  /** Where a file of the project is. */
  path(...path: string[]): string {
    return join(this.folder, ...path);
  }

  /** Runs a program in the project's folder. */
  run(command: string, args: readonly string[]): Promise<string> {
    return run(command, args, { cwd: this.folder, timeout: 300_000 });
  }

  /** Removes the project. */
  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
