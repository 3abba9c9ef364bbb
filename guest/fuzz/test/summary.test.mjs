import assert from "node:assert/strict";
import { test } from "node:test";

import { count, describe, merge } from "../lib/summary.mjs";

/**
 * @param {string} reached
 * @param {import("../lib/shard.mjs").Failure[]} failures
 * @returns {import("../lib/shard.mjs").Report}
 */
function report(reached, failures = []) {
  const lane = { target: "cbor", executions: 10, seconds: 1.5, inputs: 2, lasting: false, warm: 0, now: 0 };
  const end = { guided: true, total: 16, reached, largest: 1, heap: 1, memory: 1024 * 1024 };
  return { failures, lanes: [lane, { ...lane, target: "soak", lasting: true, warm: 1024, now: -2048 }], end };
}

test("points count once however many processes reached them", () => {
  const total = merge([report("0300"), report("0280")]);
  assert.equal(total.reached, 3);
  assert.equal(total.lanes.get("cbor")?.executions, 20);
  assert.equal(count(total), "2 passed, 0 failed");
  assert.match(describe(total, 2), /executions {3}40 in 2 s, 20 a second/);
  assert.match(describe(total, 2), /cbor +20 executions in 3.0 s, 4 inputs kept/);
  assert.match(describe(total, 2), /3 of 16 points \(18\.8 %\)/);
});

test("a failure and a process that died are counted and told how to repeat", () => {
  const died = {
    failures: [{ target: "process", message: "SIGSEGV", input: "" }],
    lanes: [],
    end: undefined,
  };
  const total = merge([report("01", [{ target: "cbor", message: "panicked", input: "00ff" }]), died]);
  assert.equal(count(total), "1 passed, 2 failed");
  const text = describe(total, 1, ["found/failure-1", undefined]);
  assert.match(text, /cbor: panicked\n {4}npm run fuzz -- --replay found\/failure-1\n {2}process: SIGSEGV$/);
});
