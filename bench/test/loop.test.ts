import assert from "node:assert/strict";
import { test } from "node:test";

import { interleaveLoops, type Loop, medians, perOperation, requestsEach } from "../src/harness/loop.ts";
import { closedLoop } from "../src/runners/closed-loop.ts";

test("a closed loop does each operation once, and never more at a time than its window", async () => {
  const done: number[] = [];
  let underWay = 0;
  let most = 0;
  const work = async (index: number) => {
    underWay += 1;
    most = Math.max(most, underWay);
    await new Promise((resolve) => setImmediate(resolve));
    underWay -= 1;
    done.push(index);
  };
  let asked = 7;
  const requests = () => {
    asked += 3;
    return asked;
  };
  const result = await closedLoop(4, 50, work, requests);
  assert.deepEqual(
    done.sort((a, b) => a - b),
    Array.from({ length: 50 }, (_, index) => index),
  );
  assert.equal(most, 4);
  assert.equal(result.requests, 3);
  assert.ok(result.ns > 0 && result.p50_us > 0 && result.p50_us <= result.p99_us);
});

test("an operation that fails ends the loop with its error", async () => {
  const work = (index: number) => (index === 3 ? Promise.reject(new Error("no answer")) : Promise.resolve());
  await assert.rejects(closedLoop(2, 10, work), /no answer/);
});

test("loops take turns, and the order of the turns changes", async () => {
  const turns: string[] = [];
  const loop = (name: string, ns: number): Loop => ({
    name,
    run: (count) => {
      turns.push(name);
      return Promise.resolve({ ns: count * ns, p50_us: 2, p99_us: 3, requests: 5 * count });
    },
  });
  const loops = [loop("a", 1e5), loop("b", 2e5)];
  const [a = [], b = []] = await interleaveLoops(loops, { rounds: 4, roundMs: 1, warmTurns: 1 }, () => {});
  assert.deepEqual(turns.slice(-8), ["a", "b", "b", "a", "a", "b", "b", "a"]);
  assert.deepEqual(perOperation(a), [1e5, 1e5, 1e5, 1e5]);
  assert.deepEqual(perOperation(b), [2e5, 2e5, 2e5, 2e5]);
  assert.deepEqual(medians(a), [2000, 2000, 2000, 2000]);
  assert.deepEqual(requestsEach(b), [5, 5, 5, 5]);
});
