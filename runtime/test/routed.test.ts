import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { MeshError } from "../src/entries/node.ts";
import { leaf, member, type TestNode } from "./support.ts";

describe("a routed message", () => {
  const nodes: TestNode[] = [];

  before(async () => {
    const first = await member();
    nodes.push(first);
    for (let more = 0; more < 4; more++) nodes.push(await member({ bootstrap: first.bootstrap }));
    for (const [index, { mesh }] of nodes.entries()) {
      mesh.routing.serve(({ body }) => Uint8Array.of(index, ...body.toReversed()));
    }
  });
  after(async () => {
    for (const { mesh } of nodes) await mesh.close();
  });

  function at(index: number): TestNode["mesh"] {
    const node = nodes[index];
    assert.ok(node);
    return node.mesh;
  }

  test("goes to whoever is responsible for an id", async () => {
    for (const digit of "0369cf") {
      const responsible = digit.repeat(64);
      const { id } = await at(1).findNode(responsible);
      const answer = await at(0).routing.send({ responsible }, Uint8Array.of(1, 2, 3));
      assert.deepEqual([...answer.subarray(1)], [3, 2, 1]);
      assert.equal(at(answer[0] ?? -1).id, id);
    }
  });

  test("goes to a member by its id, as long as it may be", async () => {
    const long = new Uint8Array(16 * 1024 - 1).fill(7);
    for (const [index, { mesh }] of nodes.entries()) {
      const answer = await at(2).routing.send({ member: mesh.id }, long);
      assert.equal(answer[0], index);
      assert.equal(answer.length, long.length + 1);
    }
    const name = "TooLarge";
    await assert.rejects(at(2).routing.send({ member: at(0).id }, new Uint8Array(16_385)), { name });
  });

  test("names its sender", async () => {
    const senders: string[] = [];
    at(3).routing.serve(({ from, target, body }) => {
      assert.equal(target, at(3).id);
      senders.push(from);
      return body;
    });
    await at(0).routing.send({ member: at(3).id }, Uint8Array.of(1));
    await at(3).routing.send({ member: at(3).id }, Uint8Array.of(1));
    assert.deepEqual(senders, [at(0).id, at(3).id]);
  });

  test("fails when it is refused, nobody is there, or it is given up", async () => {
    at(4).routing.serve(() => {
      throw new Error("not today");
    });
    const body = Uint8Array.of(1);
    await assert.rejects(at(0).routing.send({ member: at(4).id }, body), { name: "StreamRefused" });
    const nobody = { member: "0".repeat(64) };
    await assert.rejects(at(0).routing.send(nobody, body, { timeout: 300 }), { name: "Deadline" });
    const reason = new Error("enough");
    const signal = AbortSignal.abort(reason);
    await assert.rejects(at(0).routing.send(nobody, body, { signal }), reason);
    await assert.rejects(at(0).routing.send(nobody, body, { timeout: 60_001 }), MeshError);
    await assert.rejects(at(0).routing.send({ member: "12" }, body), MeshError);
  });

  test("is sent by members only", async () => {
    const outside = await leaf(nodes[0]?.bootstrap ?? "");
    const sending = outside.routing.send({ member: at(0).id }, Uint8Array.of(1));
    await assert.rejects(sending, { name: "NotMember" });
    await outside.close();
  });
});
