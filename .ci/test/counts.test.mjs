import assert from "node:assert/strict";
import { test } from "node:test";

import { parseCounts, summary } from "../lib/counts.mjs";

/** @type {[string, string, [number, number, number]][]} */
const CASES = [
  [
    "cargo, several binaries",
    "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n" +
      "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s\n",
    [7, 2, 1],
  ],
  [
    "node, spec reporter in colour",
    "\u001b[34m\u2139 tests 7\u001b[39m\n\u2139 pass 4\n\u2139 fail 1\n\u2139 cancelled 1\n\u2139 skipped 1\n\u2139 todo 0\n",
    [4, 2, 1],
  ],
  ["node, tap reporter", "1..2\n# tests 2\n# pass 2\n# fail 0\n# cancelled 0\n# skipped 0\n", [2, 0, 0]],
  ["vitest", " Test Files  1 passed (1)\n      Tests  1 failed | 4 passed | 2 skipped (7)\n", [4, 1, 2]],
  ["deno", "ok | 5 passed | 0 failed | 1 ignored (12ms)\n", [5, 0, 1]],
  ["deno, failed", "FAILED | 5 passed (2 steps) | 1 failed (1s)\n", [5, 1, 0]],
  ["python", "Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=1, skipped=1)\n", [2, 2, 1]],
  ["python, sound", "Ran 1 test in 0.1s\n\nOK\n", [1, 0, 0]],
  ["a summary of our own wins", "\u2139 pass 4\n12 passed, 3 failed, 1 skipped\n\n", [12, 3, 1]],
  ["nothing", "bash: no such command\n", [0, 0, 0]],
];

for (const [name, output, [passed, failed, skipped]] of CASES) {
  test(`counts of ${name}`, () => {
    assert.deepEqual(parseCounts(output), { passed, failed, skipped });
  });
}

test("the summary names skipped tests only when there are some", () => {
  assert.equal(summary({ passed: 2, failed: 0, skipped: 0 }), "2 passed, 0 failed");
  assert.equal(summary({ passed: 2, failed: 0, skipped: 3 }), "2 passed, 0 failed, 3 skipped");
});
