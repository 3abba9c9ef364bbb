import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import type { Newcomer } from "../newcomer.ts";
import { command, failureOf, type Take } from "./member.ts";

/** The servers of the help texts. */
const SERVERS = [
  ["https://one.example/", 7301],
  ["https://two.example/", 7302],
  ["https://other.example/", 7303],
] as const;
const PRINTS: Readonly<Record<string, string>> = { serve: "KEY", create: "NAME", append: "RECORD" };

/** The examples of `selfsame capsule` and of its commands, in an order in which each finds what it names. */
export async function playCapsuleHelp(newcomer: Newcomer, take: Take): Promise<void> {
  const own = (text: string): string =>
    SERVERS.reduce((so, [url, port], at) => {
      const here = `http://127.0.0.1:${port}/`;
      return so
        .replaceAll(`${url}#KEY`, `${here}#${newcomer.printed.get(serverKey(at))}`)
        .replaceAll(url, here);
    }, text);
  const play = async (path: string): Promise<void> => {
    for (const text of take(path)) {
      const what = /\bcapsule ([a-z]+)/.exec(text)?.[1] ?? "";
      await command(newcomer, own(text), PRINTS[what]);
    }
  };
  for (const [at, [, port]] of SERVERS.entries()) {
    const serve = `selfsame capsule serve --listen 127.0.0.1:${port} --data ./server-${at}`;
    await command(newcomer, serve, serverKey(at));
  }
  await play("capsule");
  await refusesReader(newcomer);
  await newcomer.end((text) => text.includes("./capsules"));
  writeFileSync(join(newcomer.folder, "note.txt"), "a note\n");
  writeFileSync(join(newcomer.folder, "log.txt"), "one\ntwo\n");
  for (const path of [
    "create",
    "append",
    "read",
    "prove",
    "export",
    "verify",
    "heads",
    "log",
    "sync",
    "import",
    "key",
  ]) {
    await play(`capsule ${path}`);
  }
  await readerOf(newcomer);
  for (const text of take("capsule govern").map(own)) {
    // What is accepted of a writer who leaves is what that writer has written.
    const written =
      "selfsame capsule append NAME note.txt --key ./writer.key --server http://127.0.0.1:7301/";
    if (text.includes("--accept")) await command(newcomer, written, "RECORD");
    await command(newcomer, text);
  }
  for (const text of take("capsule serve")) {
    await command(newcomer, own(text));
    await newcomer.end((other) => other === own(text));
  }
}

/** What stands for the key of a server. */
function serverKey(at: number): string {
  return `SERVER-${"ABC"[at]}`;
}

/** Takes the keys of the example's key file for those of a writer and a reader. */
async function readerOf(newcomer: Newcomer): Promise<void> {
  const keys = await command(newcomer, "selfsame capsule key --key ./writer.key", "KEY");
  newcomer.printed.set("READER", /^reader ([0-9a-f]+)$/m.exec(keys)?.[1] ?? "");
}

/** A capsule that everybody reads has no readers, and says so. */
async function refusesReader(newcomer: Newcomer): Promise<void> {
  await readerOf(newcomer);
  const govern = "selfsame capsule govern NAME --reader READER --server http://127.0.0.1:7300/";
  assert.match(await failureOf(newcomer, govern), /--reader: the capsule is not sealed.*--sealed/);
}
