import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CapsuleRecord, HistoryRecord } from "selfsame/capsule";

import { stepsOf, writerOf, writersOf } from "./model.ts";
import { bodyOf, timeOf, titleOf } from "./text.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function holding(
  content: Uint8Array,
  kind: HistoryRecord["kind"] = "plain",
): Pick<HistoryRecord, "kind" | "record"> {
  return { kind, record: { content, subrecords: [bytes("a"), bytes("b")] } as unknown as CapsuleRecord };
}

describe("the line of a record", () => {
  it("says what is known of it, and that it is sealed where nothing is", () => {
    const json = (value: unknown) => titleOf(holding(bytes(JSON.stringify(value))));
    assert.equal(json({ user: "ada", status: 200 }), "ada signed in");
    assert.equal(json({ user: "ada", status: 401 }), "ada was refused");
    assert.equal(json({ event: "began" }), "began");
    assert.equal(json([1]), "[1]");
    assert.equal(json(null), "null");
    assert.equal(titleOf(holding(Uint8Array.of(0, 255))), "2 bytes");
    assert.equal(titleOf(holding(bytes("a\u0000b"))), "3 bytes");
    assert.equal(titleOf(holding(bytes(""), "tree")), "2 sub-records");
    assert.equal(titleOf(holding(bytes(""), "epoch")), "who writes and reads");
    assert.equal(titleOf({ kind: "plain", record: undefined }), "sealed");
  });

  it("is short whatever the writer has written", () => {
    const long = "x".repeat(100_000);
    for (const content of [long, JSON.stringify({ user: long }), JSON.stringify({ event: long })]) {
      assert.ok(titleOf(holding(bytes(content))).length < 120);
      assert.ok(bodyOf(bytes(content)).length <= 4000);
    }
    assert.ok(bodyOf(new Uint8Array(100_000).fill(255)).length <= 4002);
  });

  it("has the time that the writer claims, if that is one", () => {
    const timed = (time_ms: unknown) => timeOf(holding(bytes(JSON.stringify({ time_ms }))));
    assert.equal(timed(0)?.getTime(), 0);
    assert.equal(timed(1e300), undefined);
    assert.equal(timed("now"), undefined);
    assert.equal(timeOf({ record: undefined }), undefined);
  });
});

describe("writers", () => {
  it("have the names that the owner has signed, or numbers", () => {
    const keys = [0, 1, 2, 9].map((number) => ({ number, key: `key ${number}` }));
    const writers = writersOf("Sign-ins, written by 0 nobody, 1 wasmtime, 2 deno", keys);
    assert.deepEqual(
      writers.map(({ name }) => name),
      ["owner", "wasmtime", "deno", "writer 9"],
    );
    assert.equal(writerOf(writers, 7).name, "writer 7");
  });
});

describe("the steps of a proof", () => {
  const [top, middle, end] = ["top", "middle", "end"].map((name, writer) => ({ name, writer })) as [
    { name: string; writer: number },
    { name: string; writer: number },
    { name: string; writer: number },
  ];

  it("begin with the signature and end with the record, whether its own header is among them or not", () => {
    const expected = [
      ["top", "signature"],
      ["middle", "pointer"],
      ["end", "pointer"],
    ];
    for (const path of [
      [top, middle, end],
      [top, middle],
    ]) {
      assert.deepEqual(
        stepsOf(path, end).map(({ record, by }) => [record, by]),
        expected,
      );
    }
  });
});
