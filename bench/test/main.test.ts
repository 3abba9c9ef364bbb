import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { TaskProcess } from "../src/harness/process.ts";

const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));

function run(...args: string[]) {
  const flags = ["--disable-warning=ExperimentalWarning"];
  return spawnSync(process.execPath, [...flags, main, ...args], { encoding: "utf8" });
}

test("an unknown name is answered with the names, in one line and exit code 2", () => {
  const { status, stdout, stderr } = run("cors");
  assert.equal(status, 2);
  assert.equal(stdout, "");
  assert.equal(
    stderr,
    "no experiment cors; the names are: core, handshake, channel, themis-t2, themis-t3, themis-t4, themis-t5, dcs-d1, dcs-d2, dcs-d3, dcs-d4, dcs-node, r2p2-r1, r2p2-r2, r2p2-r3, r2p2-first, r2p2-rate, r2p2-tail, chord-c1, chord-c2, chord-c3\n",
  );
});

test("no name, two names and an unknown flag are refused in one line", () => {
  for (const args of [[], ["core", "channel"], ["core", "--fast"]]) {
    const { status, stderr } = run(...args);
    assert.equal(status, 2);
    assert.match(stderr, /^[^\n]+\n$/);
  }
});

test("--help tells the names", () => {
  const { status, stdout } = run("--help");
  assert.equal(status, 0);
  assert.match(stdout, /handshake/);
});

test("a task process that fails says why, and one that ends is noticed", async () => {
  const echo = `process.stdin.on("data", (line) => {
    if (String(line).startsWith("end")) process.exit(0);
    console.log(String(line).startsWith("good") ? "ok 7" : "error no such task");
  })`;
  await using child = new TaskProcess("echo", process.execPath, ["-e", echo]);
  assert.equal(await child.request("good", 1), "7");
  await assert.rejects(child.request("bad", 1), /^Problem: echo, bad: no such task$/);
  await assert.rejects(child.request("end", 1), /the process ended/);
});
