import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { nextId, walk } from "./walk.ts";

const id = (start: string): string => start.padEnd(64, "0");

/** A ring that answers as its members would: the first at or after the id, around the end. */
function ringOf(...ids: string[]): (target: string) => Promise<{ id: string }> {
  const sorted = ids.toSorted();
  return async (target) => ({ id: sorted.find((member) => member >= target) ?? sorted[0] ?? "" });
}

describe("a walk around the ring", () => {
  it("meets every member once, in order, wherever it starts", async () => {
    const members = [id("11"), id("7f"), id("80"), id("fe")];
    for (const start of [id("00"), id("7f"), id("ff")]) {
      const met = (await walk(ringOf(...members), start)).map((member) => member.id);
      assert.deepEqual(met.toSorted(), members);
      assert.equal(met[0], start === id("7f") ? id("7f") : id("11"));
    }
  });

  it("ends in a ring of one and in a ring that changes under way", async () => {
    assert.equal((await walk(ringOf(id("42")), id("00"))).length, 1);
    let asked = 0;
    const moving = async (): Promise<{ id: string }> => ({ id: id((asked++).toString(16).padStart(4, "0")) });
    assert.equal((await walk(moving, id("00"))).length, 64);
  });

  it("fails when a lookup does", async () => {
    await assert.rejects(
      walk(() => Promise.reject(new Error("nobody answered")), id("00")),
      /nobody answered/,
    );
  });
});

describe("the id after", () => {
  it("carries, and starts again at the end", () => {
    assert.equal(nextId(`${"0".repeat(62)}ff`), `${"0".repeat(61)}100`);
    assert.equal(nextId("f".repeat(64)), "0".repeat(64));
  });
});
