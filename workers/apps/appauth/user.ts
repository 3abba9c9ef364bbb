// Adds a user to a dictionary: `npm run user -w selfsame-apps -- FILE NAME`, the password on standard input.
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";

import { parseCredentials, parseDictionary, storePassword } from "./credentials.ts";

const [file, user] = process.argv.slice(2);
if (file === undefined || user === undefined) fail("usage: user FILE NAME, the password on standard input");

const dictionary = existsSync(file) ? readDictionary(file) : {};
const password = await createInterface({ input: process.stdin }).question("");
const credentials =
  parseCredentials({ user, password }) ?? fail("the name or the password is empty or too long");
const updated = { ...dictionary, [credentials.user]: await storePassword(credentials.password) };
// A reader never sees half a file.
writeFileSync(`${file}.new`, `${JSON.stringify(updated, undefined, 2)}\n`, { mode: 0o600 });
renameSync(`${file}.new`, file);
process.stdout.write(`${file}: ${credentials.user} can sign in\n`);
process.exit(0);

function readDictionary(path: string): ReturnType<typeof parseDictionary> {
  try {
    return parseDictionary(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    return fail(`${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}
