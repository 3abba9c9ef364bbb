import { writeFileSync } from "node:fs";

/** Writes a secret where only this user reads it: arguments and environments are listed. Returns the file. */
export function secretFile(file: string, text: string): string {
  writeFileSync(file, text, { mode: 0o600 });
  return file;
}
