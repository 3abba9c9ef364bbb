import assert from "node:assert/strict";
import { test } from "node:test";

import { Traps } from "../src/driver/traps.ts";
import cases from "./traps.json" with { type: "json" };

test("the pause after a trap, and whether it is told, are those of all hosts", () => {
  const traps = new Traps();
  for (const { at_s, pause_s, isUnstable } of cases) {
    const after = traps.note(at_s * 1000);
    assert.deepEqual([after.pause_ms, after.isUnstable], [pause_s * 1000, isUnstable], `at ${at_s} s`);
  }
});
