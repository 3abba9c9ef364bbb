import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HistoryRecord } from "selfsame/capsule";

import { edgesOf, lanesOf, ROW } from "./lanes.ts";

function record(
  name: string,
  writer: number,
  parents: string[] = [],
  shortcuts: string[] = [],
): HistoryRecord {
  const backpointers = [...parents, ...shortcuts];
  return {
    name,
    writer,
    parents,
    backpointers,
    kind: "plain",
    epoch: 0,
    sequence: 0,
    bodyLength: 0,
    record: undefined,
  };
}

/** Two branches, merged at the top; `f` is a shortcut away from its parent's parent. */
const RECORDS = [
  record("f", 1, ["e", "d"], ["b"]),
  record("e", 1, ["c"]),
  record("d", 2, ["b"]),
  record("c", 1, ["b"]),
  record("b", 1, ["a"]),
  record("a", 0, ["not read yet"]),
];

describe("lanes", () => {
  it("give each record a row, and each writer a lane", () => {
    const { rows, width } = lanesOf(RECORDS);
    assert.deepEqual(
      rows.map(({ y }) => Math.floor(y / ROW)),
      [0, 1, 2, 3, 4, 5],
    );
    const x = new Map(rows.map((row) => [row.record.writer, row.x]));
    assert.equal(new Set(x.values()).size, 3);
    assert.ok([...x.values()].every((place) => place > 0 && place < width));
  });

  it("are no wider for many writers", () => {
    const many = Array.from({ length: 100 }, (_, writer) => record(String(writer), writer));
    assert.ok(lanesOf(many).width < 200);
    assert.ok(lanesOf([]).width > 0);
  });
});

describe("lines", () => {
  const kinds = (first: number, last: number): string[] =>
    edgesOf(lanesOf(RECORDS), first, last).map(({ key, kind }) => `${kind} ${key}`);

  it("tell parents, merged branches and shortcuts apart, and lead nowhere that was not read", () => {
    assert.deepEqual(kinds(0, 5), [
      "parent f-e",
      "merge f-d",
      "shortcut f-b",
      "parent e-c",
      "parent d-b",
      "parent c-b",
      "parent b-a",
    ]);
  });

  it("of a window are those that are seen in it, also when both ends are outside", () => {
    assert.deepEqual(kinds(3, 3), ["shortcut f-b", "parent e-c", "parent d-b", "parent c-b"]);
    assert.deepEqual(kinds(5, 5), ["parent b-a"]);
  });
});
