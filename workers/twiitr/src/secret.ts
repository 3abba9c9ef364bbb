import { rmSync, writeFileSync } from "node:fs";

/** Writes a secret where only this user reads it: arguments and environments are listed. Returns the file. */
export function secretFile(file: string, text: string): string {
  // A file that is there keeps its mode, and a link leads to another.
  rmSync(file, { force: true });
  writeFileSync(file, text, { mode: 0o600, flag: "wx" });
  return file;
}
