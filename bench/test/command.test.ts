import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";

import { Command } from "../src/harness/command.ts";

/** A program that tells what its arguments after `--json` are, one event each, and stays if the last is `stay`. */
const PROGRAM = `const [, ...events] = process.argv.slice(1);
for (const event of events) console.log(JSON.stringify({ event, length: event.length }));
if (events.at(-1) === "stay") setInterval(() => {}, 1000);`;

function command(...events: string[]): Command {
  return new Command(process.execPath, events, ["--eval", PROGRAM, "--"]);
}

test("an event is waited for and what comes before it passed over", async () => {
  await using ring = command("one", "three", "stay");
  assert.deepEqual(await ring.event("three"), { event: "three", length: 5 });
});

test("everything is told until the end", async () => {
  await using ring = command("one", "two");
  const told = [];
  for await (const line of ring.told()) told.push(line.event);
  assert.deepEqual(told, ["one", "two"]);
});

test("a command that ends before the event is a problem that names both", async () => {
  await using ring = command("one");
  await assert.rejects(ring.event("joined"), /^Problem: selfsame one ended before it told of "joined"$/);
  await using none = new Command("/nonexistent/selfsame", ["nodes"]);
  await assert.rejects(none.event("joined"), /selfsame nodes ended/);
});
