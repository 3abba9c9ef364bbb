import assert from "node:assert/strict";
import { describe, it } from "node:test";

import type { Replica } from "./model.ts";
import { partsOf } from "./split.ts";

const replica = (peer: string, version: string, weight: number): Replica => ({
  peer,
  label: "",
  version,
  weight,
  ejected: false,
  latency_ms: null,
});
const split = (replicas: Replica[], requests: [string, number][] = []) =>
  partsOf(replicas, new Map(requests)).map(({ version, share, measured }) => [
    version,
    Math.round(share * 1000) / 1000,
    measured,
  ]);

describe("a split by version", () => {
  it("gives a canary its weight and the others even parts of the rest, however many replicas each has", () => {
    const replicas = [replica("a", "1", 1), replica("b", "1", 1), replica("c", "2", 0.1)];
    assert.deepEqual(split(replicas), [
      ["1", 0.9, undefined],
      ["2", 0.1, undefined],
    ]);
    assert.deepEqual(split([...replicas, replica("d", "3", 1)]), [
      ["1", 0.45, undefined],
      ["2", 0.1, undefined],
      ["3", 0.45, undefined],
    ]);
  });

  it("divides everything where no version takes the rest", () => {
    assert.deepEqual(split([replica("a", "1", 0.2), replica("b", "2", 0.6)]), [
      ["1", 0.25, undefined],
      ["2", 0.75, undefined],
    ]);
    assert.deepEqual(split([replica("a", "1", 0)]), [["1", 0, undefined]]);
    assert.deepEqual(split([]), []);
  });

  it("stands beside what was measured of the providers that are there", () => {
    const replicas = [replica("a", "", 1), replica("b", "2", 0.1)];
    const requests: [string, number][] = [
      ["a", 87],
      ["b", 13],
      ["gone", 50],
    ];
    assert.deepEqual(split(replicas, requests), [
      ["", 0.9, 0.87],
      ["2", 0.1, 0.13],
    ]);
  });
});
