import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";

import { type Loop, loopOf, takeTurns } from "../src/harness/loop.ts";
import { findRocksDb } from "../src/harness/rocksdb.ts";
import { hypercoreProcess } from "../src/harness/runtimes.ts";

test("hypercore reads and proves blocks as the harness asks", async () => {
  await using process = hypercoreProcess();
  for (const task of ["get/16/200", "proof/16/200"]) {
    assert.ok((await loopOf(task, process, task).run(50)).ns > 0, task);
  }
  await assert.rejects(process.request("put/16/200", 1), /hypercore, put\/16\/200: .*no task put\/16\/200/);
});

test("a library of RocksDB that is not where it is said to be is named", () => {
  const before = process.env.ROCKSDB_LIBRARY;
  process.env.ROCKSDB_LIBRARY = "/nowhere/librocksdb.so";
  try {
    assert.throws(findRocksDb, /ROCKSDB_LIBRARY names \/nowhere\/librocksdb\.so, which is not there/);
  } finally {
    if (before === undefined) delete process.env.ROCKSDB_LIBRARY;
    else process.env.ROCKSDB_LIBRARY = before;
  }
});

test("loops take as many turns as they are told, each of the same length, in turning order", async () => {
  const order: string[] = [];
  const loop = (name: string): Loop => ({
    name,
    run: async (count) => {
      order.push(`${name} ${count}`);
      return { ns: 1, p50_us: 1, p99_us: 1, requests: 0 };
    },
  });
  const samples = await takeTurns([loop("a"), loop("b")], 7, 2, () => {});
  assert.deepEqual(order, ["a 7", "b 7", "b 7", "a 7"]);
  assert.deepEqual(
    samples.map((turns) => turns.map(({ count }) => count)),
    [
      [7, 7],
      [7, 7],
    ],
  );
});
