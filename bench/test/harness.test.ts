import assert from "node:assert/strict";
import { test } from "node:test";

import { interleave, type Work } from "../src/harness/measure.ts";
import { missed, toJson, toTable } from "../src/harness/report.ts";
import {
  excessAtMost,
  figure,
  isMet,
  oursAtLeast,
  oursAtMost,
  oursBelow,
  ratioAtLeast,
  ratioAtMost,
  timed,
} from "../src/harness/row.ts";
import { exactly, pairedRatio, summarise } from "../src/harness/statistics.ts";

test("quartiles of samples in any order", () => {
  assert.deepEqual(summarise([5, 1, 4, 2, 3]), { median: 3, lower: 2, upper: 4 });
  assert.deepEqual(summarise([1, 2]), { median: 1.5, lower: 1.25, upper: 1.75 });
  assert.throws(() => summarise([]), /no samples/);
});

test("a slow spell that hits both sides of a round leaves the ratio alone", () => {
  assert.equal(pairedRatio([10, 20, 100], [5, 10, 50]), 2);
});

test("a rate is better when it is higher, and its ratio is of rates", () => {
  const row = timed("x", "1/s", [1000], { name: "peer", samples: [4000] }, ratioAtLeast(4));
  assert.equal(row.ours.median, 1e6);
  assert.equal(row.ratio, 4);
  assert.equal(isMet(row), true);
});

test("each kind of bar is met at its edge and missed beyond it", () => {
  const peer = { name: "peer", samples: [1e6] };
  assert.equal(isMet(timed("x", "ms", [1.25e6], peer, ratioAtMost(1.25))), true);
  assert.equal(isMet(timed("x", "ms", [1.26e6], peer, ratioAtMost(1.25))), false);
  assert.equal(isMet(timed("x", "1/s", [1.01e6], peer, ratioAtLeast(1))), false);
  assert.equal(isMet(timed("x", "ms", [6e6], peer, excessAtMost(5))), true);
  assert.equal(isMet(timed("x", "ms", [6.01e6], peer, excessAtMost(5))), false);
  assert.equal(isMet(timed("x", "ms", [6e6], null, excessAtMost(5))), false);
  assert.equal(isMet(figure("x", "bytes", exactly(10), oursAtMost(10))), true);
  assert.equal(isMet(figure("x", "bytes", exactly(10), oursBelow(10))), false);
  assert.equal(isMet(timed("x", "1/s", [1e6], null, oursAtLeast(1000))), true);
  assert.equal(isMet(timed("x", "1/s", [1.01e6], null, oursAtLeast(1000))), false);
  assert.equal(isMet(figure("x", "bytes", exactly(10))), null);
});

test("the object of --json has the fields that programs rely on", () => {
  const rows = [
    figure("size", "bytes", exactly(12), oursAtMost(11)),
    timed("speed", "us", [2000], { name: "peer", samples: [1000] }),
  ];
  const result = { experiment: "e", machine: { cores: 2 }, rows };
  assert.deepEqual(JSON.parse(toJson(result)), {
    experiment: "e",
    machine: { cores: 2 },
    rows: [
      {
        what: "size",
        unit: "bytes",
        ours: 12,
        peer: null,
        peerName: null,
        ratio: null,
        bar: "ours <= 11",
        met: false,
      },
      { what: "speed", unit: "us", ours: 2, peer: 1, peerName: "peer", ratio: 2, bar: null, met: null },
    ],
  });
  assert.deepEqual(missed(rows), ["size: ours <= 11"]);
  assert.match(toTable(result), /size .* 12 .* ours <= 11: MISSED/);
});

test("works take turns, and the order of the turns changes", async () => {
  const turns: string[] = [];
  const work = (name: string, ns: number): Work => ({
    name,
    run: (count) => {
      turns.push(name);
      return Promise.resolve(count * ns);
    },
  });
  const samples = await interleave(
    [work("a", 1e5), work("b", 2e5)],
    { rounds: 4, roundMs: 1, warmTurns: 1 },
    () => {},
  );
  assert.deepEqual(samples, [
    [1e5, 1e5, 1e5, 1e5],
    [2e5, 2e5, 2e5, 2e5],
  ]);
  assert.deepEqual(turns.slice(-8), ["a", "b", "b", "a", "a", "b", "b", "a"]);
});
