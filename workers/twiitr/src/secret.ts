import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Writes a secret where only this user reads it: arguments and environments are listed. Returns the file. */
export function secretFile(file: string, text: string): string {
  // A file that is there keeps its mode, and a link leads to another.
  rmSync(file, { force: true });
  writeFileSync(file, text, { mode: 0o600, flag: "wx" });
  return file;
}

/** The file of the secret that the replicas of `check` share; it is made if there is none. */
export function ticketKeyFile(folder: string): string {
  return madeFile(join(folder, "check.ticket-key"));
}

/** The secret of 64 hexadecimal digits in a file; it is made if there is none. */
export function keptSecret(file: string): string {
  const text = readFileSync(madeFile(file), "utf8").trim();
  if (!/^[0-9a-f]{64}$/.test(text))
    throw new Error(`${file} is damaged: remove it to begin with a new secret`);
  return text;
}

function madeFile(file: string): string {
  return existsSync(file) ? file : secretFile(file, `${randomBytes(32).toString("hex")}\n`);
}
