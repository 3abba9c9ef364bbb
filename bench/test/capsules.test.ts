import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";

import { type Loop, loopOf, takeTurns } from "../src/harness/loop.ts";
import { findRocksDb } from "../src/harness/rocksdb.ts";
import { capsuleProcess, hypercoreProcess } from "../src/harness/runtimes.ts";

test("hypercore reads and proves blocks as the harness asks", async () => {
  await using process = hypercoreProcess();
  for (const task of ["get/16/200", "read/16/200", "proof/16/200"]) {
    assert.ok((await loopOf(task, process, task).run(50)).ns > 0, task);
  }
  for (const task of ["append/16", "appends/16"]) await process.request(task, 150);
  await assert.rejects(process.request("put/16/200", 1), /hypercore, put\/16\/200: .*no task put\/16\/200/);
});

test("capsules of the package append, read, get and set as the harness asks", async () => {
  await using process = capsuleProcess();
  for (const place of ["sqlite", "memory", "sqlite/http"]) {
    for (const task of ["append", "read", "get", "set"]) {
      const name = `${task}/${place}`;
      assert.ok((await loopOf(name, process, name).run(20)).ns > 0, name);
    }
    await process.request(`appends/${place}`, 150);
  }
  await process.request("fill/memory", 150);
  for (const name of ["put/memory", "get/tape"]) {
    await assert.rejects(process.request(name, 1), /capsule, .*: .*no (task|storage) /);
  }
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
