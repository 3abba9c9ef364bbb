import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { angleOf, arcsOf, LINE_HEIGHT, layout, pointAt, RADIUS, SIZE } from "./layout.ts";
import { membersOf, type Ring, type RingNode } from "./model.ts";

const id = (start: string): string => start.padEnd(64, "0");

function member(start: string, services: string[] = []): RingNode {
  return { id: id(start), role: "member", label: "deno", addresses: [], services, relays: [] };
}

function ringOf(nodes: RingNode[], self = "", sessions: string[] = []): Ring {
  return { network: "test", membership: null, self, nodes, services: [], sessions };
}

const close = (actual: number, expected: number): void =>
  assert.ok(Math.abs(actual - expected) < 1e-6, `${actual} is not ${expected}`);

describe("the place of an id", () => {
  it("goes clockwise from the top", () => {
    close(angleOf(id("00")), 0);
    close(angleOf(id("40")), Math.PI / 2);
    close(angleOf(id("80")), Math.PI);
    close(pointAt(angleOf(id("40")), RADIUS).x, SIZE / 2 + RADIUS);
    close(pointAt(angleOf(id("80")), RADIUS).y, SIZE / 2 + RADIUS);
  });

  it("stays on the circle for the last id", () => {
    assert.ok(angleOf("f".repeat(64)) < 2 * Math.PI);
  });
});

describe("the stretches of key space", () => {
  it("cover the circle exactly once, whatever the order of arrival", () => {
    const arcs = arcsOf(membersOf(ringOf([member("c0"), member("01"), member("55")])));
    assert.deepEqual(
      arcs.map((arc) => arc.id.slice(0, 2)),
      ["01", "55", "c0"],
    );
    close(
      arcs.reduce((sum, arc) => sum + arc.to - arc.from, 0),
      2 * Math.PI,
    );
    for (const arc of arcs) assert.ok(arc.to > arc.from);
  });

  it("give everything to a single member and nothing to leaves", () => {
    const leaf: RingNode = { ...member("20"), role: "leaf" };
    const [arc, ...others] = arcsOf(membersOf(ringOf([member("90"), leaf])));
    assert.ok(arc);
    close(arc.to - arc.from, 2 * Math.PI);
    assert.deepEqual(others, []);
  });
});

describe("captions", () => {
  it("of neighbours on one side do not cover each other and stay inside", () => {
    for (const starts of [
      ["3e", "3f", "40", "41"],
      ["70", "71", "72"],
      ["0f", "10", "11"],
      ["b8", "bf", "c0", "c8"],
    ]) {
      const { nodes } = layout(ringOf(starts.map((start) => member(start, ["handler", "check"]))));
      const captions = nodes.map(({ caption }) => caption).sort((a, b) => a.at.y - b.at.y);
      for (const [index, caption] of captions.entries()) {
        const bottom = caption.at.y + (caption.lines.length - 1) * LINE_HEIGHT;
        assert.ok(bottom <= SIZE, `${starts[index]} ends at ${bottom}`);
        assert.ok(caption.at.y >= 0);
        const next = captions[index + 1];
        if (next?.anchor === caption.anchor) assert.ok(next.at.y > bottom, `${starts[index]} is covered`);
      }
    }
  });

  it("of close neighbours above and below the ring lead away from each other", () => {
    for (const starts of [
      ["f4", "fa"],
      ["fd", "02"],
      ["05", "0d"],
      ["7c", "83"],
    ]) {
      const { nodes } = layout(ringOf(starts.map((start) => member(start))));
      const [left, right] = nodes.toSorted((a, b) => a.at.x - b.at.x);
      assert.deepEqual([left?.caption.anchor, right?.caption.anchor], ["end", "start"], starts.join(" "));
    }
    const [lone] = layout(ringOf([member("00"), member("60"), member("a0")])).nodes;
    assert.equal(lone?.caption.anchor, "middle");
  });

  it("shorten long names and long lists", () => {
    const names = ["a-name-that-is-very-long", "b", "c", "d", "e", "f"];
    const [placed] = layout(ringOf([member("40", names)])).nodes;
    assert.deepEqual(placed?.caption.lines.slice(2), ["a-name-that-\u2026", "b", "c", "d", "+2 more"]);
  });
});

describe("links", () => {
  it("lead from a leaf to its relays, and to other peers once", () => {
    const [one, other, third] = [member("10"), member("90"), member("d0")];
    const leaf: RingNode = { ...member("50"), role: "leaf", relays: [one.id, other.id] };
    const ring = ringOf([one, other, third, leaf], leaf.id, [one.id, third.id, id("77")]);
    assert.deepEqual(
      layout(ring).links.map(({ kind, key }) => [kind, key.split("-")[2]?.slice(0, 2)]),
      [
        ["relay", "10"],
        ["relay", "90"],
        ["session", "d0"],
      ],
    );
  });
});
