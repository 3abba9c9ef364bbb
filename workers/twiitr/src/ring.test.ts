import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { faultsOf } from "./ring.ts";
import type { NodeStatus } from "./status.ts";

const node = (id: string, before: string, after: string, joined = true): NodeStatus => ({
  id,
  joined,
  bootId: "",
  predecessor: before ? { id: before } : null,
  successors: after ? [{ id: after }] : [],
  services: [],
});

describe("a ring", () => {
  it("of three is correct when each knows its neighbours", () => {
    assert.deepEqual(faultsOf([node("b", "a", "c"), node("a", "c", "b"), node("c", "b", "a")]), []);
  });

  it("of one needs no neighbour, of two each other twice", () => {
    assert.deepEqual(faultsOf([node("a", "", "")]), []);
    assert.deepEqual(faultsOf([node("a", "b", "b"), node("b", "a", "a")]), []);
  });

  it("is wrong when one passes over another, knows nobody or has not joined", () => {
    assert.deepEqual(faultsOf([node("b", "a", "c"), node("a", "c", "c"), node("c", "b", "a")]), [
      "a has the wrong successor",
    ]);
    assert.equal(faultsOf([node("a", "", ""), node("b", "", "")]).length, 4);
    assert.deepEqual(faultsOf([node("a", "b", "b"), node("b", "a", "a", false)]), ["b has not joined"]);
  });
});
