import assert from "node:assert/strict";
import { test } from "node:test";

import { bars, lines } from "../src/harness/plot.ts";

/** The numbers in an attribute of all elements of a name. */
function attribute(svg: string, element: string, name: string): number[] {
  const found = svg.matchAll(new RegExp(`<${element} [^>]*\\b${name}="([^"]*)"`, "g"));
  return [...found].map(([, value]) => Number(value));
}

test("bars are as long as their values, and text stays text", () => {
  const svg = bars("a < b & c", [
    { name: "one", value: 100 },
    { name: "half", value: 50 },
    { name: "none", value: 0 },
  ]);
  const [one = 0, half = 0, none = 1] = attribute(svg, "rect", "width");
  assert.ok(one > 0 && Math.abs(half - one / 2) < 0.1 && none === 0);
  assert.match(svg, /a &lt; b &amp; c/);
  assert.match(svg, /^<svg xmlns="http:\/\/www.w3.org\/2000\/svg"[^>]*>[\s\S]*<\/svg>\n$/);
});

test("equal factors are equal distances on both axes of lines", () => {
  const points = [
    [1, 10],
    [10, 100],
    [100, 1000],
  ] as const;
  const svg = lines("nodes", [{ title: "lookups", series: [{ name: "ours", points }] }]);
  for (const axis of ["cx", "cy"]) {
    const [a = 0, b = 0, c = 0] = attribute(svg, "circle", axis);
    assert.ok(Math.abs(b - a) > 10 && Math.abs(b - a - (c - b)) < 0.2, axis);
  }
});

test("a plot of one point has no broken coordinate", () => {
  const svg = lines("nodes", [{ title: "lookups", series: [{ name: "ours", points: [[1, 1]] }] }]);
  assert.doesNotMatch(svg, /NaN|Infinity|undefined/);
});

test("bars of nothing have no broken width", () => {
  const svg = bars("nothing", [{ name: "none", value: 0 }]);
  assert.doesNotMatch(svg, /NaN|Infinity|undefined/);
});
