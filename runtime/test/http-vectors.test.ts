import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";

import {
  decodeRequestHead,
  decodeResponseHead,
  encodeRequestHead,
  encodeResponseHead,
  fromHex,
  type HeaderList,
  toHex,
} from "../src/codec/index.ts";

interface Vectors {
  requests: { method: string; path: string; headers: HeaderList; encoded: string }[];
  answers: { status: number; headers: HeaderList; encoded: string }[];
  refused_requests: { why: string; encoded: string }[];
  refused_answers: { why: string; encoded: string }[];
}

const isMalformed = { name: "BadInput" };
const file = new URL("../../docs/specification/vectors/http.json", import.meta.url);
const vectors = JSON.parse(readFileSync(file, "utf8")) as Vectors;
const bytesOf = (hex: string): Uint8Array => fromHex(hex, hex.length / 2, "a vector");

describe("vectors of http.md", () => {
  test("requests and answers decode to their fields and encode to their bytes", () => {
    for (const { encoded, ...head } of vectors.requests) {
      assert.deepEqual(decodeRequestHead(bytesOf(encoded)), head);
      assert.equal(toHex(encodeRequestHead(head)), encoded);
    }
    for (const { encoded, ...head } of vectors.answers) {
      const bytes = bytesOf(encoded);
      assert.deepEqual(decodeResponseHead(bytes), { head, taken: bytes.length });
      assert.equal(toHex(encodeResponseHead(head)), encoded);
    }
  });

  test("malformed heads are refused", () => {
    assert.ok(vectors.refused_requests.length > 50 && vectors.refused_answers.length > 25);
    for (const { why, encoded } of vectors.refused_requests) {
      assert.throws(() => decodeRequestHead(bytesOf(encoded)), isMalformed, why);
    }
    for (const { why, encoded } of vectors.refused_answers) {
      assert.throws(() => decodeResponseHead(bytesOf(encoded)), isMalformed, why);
    }
  });
});
