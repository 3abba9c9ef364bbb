import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { IDBFactory, IDBKeyRange } from "fake-indexeddb";
import { type StoreSubject, storeContract } from "../src/stores/contract.ts";
import { indexedDb } from "../src/stores/indexed-db.ts";
import { MemoryStore } from "../src/stores/memory.ts";
import { SqliteStore, sqlite } from "../src/stores/sqlite.ts";

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "selfsame-stores-"));
});
after(() => rm(folder, { recursive: true }));

function contract(name: string, make: () => Promise<StoreSubject>): void {
  describe(`store contract: ${name}`, () => {
    for (const { name: promise, run } of storeContract) test(promise, () => run(make));
  });
}

let files = 0;
const freshFile = (): string => join(folder, `${++files}.db`);

contract("memory", async () => ({ persistent: false, open: async () => new MemoryStore() }));
contract("node:sqlite", async () => {
  const file = freshFile();
  return { persistent: true, open: async () => new SqliteStore(file) };
});
contract("IndexedDB", async () => {
  Object.assign(globalThis, { indexedDB: new IDBFactory(), IDBKeyRange });
  return { persistent: true, open: async () => indexedDb("contract")() };
});

test("memory keeps thousands of entries in order while they come and go", () => {
  const store = new MemoryStore();
  const model = new Map<number, number>();
  const keyOf = (index: number): Uint8Array => Uint8Array.of(index >> 8, index & 0xff);
  const scattered = (step: number): number => (step * 7919) % 5000;
  for (let step = 0; step < 20_000; step++) {
    const index = scattered(step);
    // Every second time round a key that is there goes again, in another order.
    const isDeleted = step % 10_000 >= 5000 && step % 3 > 0;
    if (isDeleted) model.delete(index);
    else model.set(index, step % 256);
    store.commit([{ key: keyOf(index), value: isDeleted ? null : Uint8Array.of(step) }]);
  }
  const entries = [...model].sort(([one], [other]) => one - other);
  const shown = store.scan(new Uint8Array(), Uint8Array.of(0xff), 5000);
  assert.deepEqual(
    shown.map(([[high = 0, low = 0], [value]]) => [high * 256 + low, value]),
    entries,
  );
  const [start, end] = [keyOf(1000), keyOf(4000)];
  const between = entries.filter(([index]) => index >= 1000 && index < 4000);
  assert.equal(store.keys(start, end, 5000).length, between.length);
  for (const [index] of entries) store.commit([{ key: keyOf(index), value: null }]);
  assert.deepEqual(store.keys(new Uint8Array(), Uint8Array.of(0xff), 1), []);
});

describe("node:sqlite", () => {
  test("a durable commit of nothing is written, as SQLite waits for the disk only then", async () => {
    const file = freshFile();
    const store = new SqliteStore(file);
    const size = async (): Promise<number> => (await stat(`${file}-wal`)).size;
    store.commit([{ key: Uint8Array.of(1), value: Uint8Array.of(1) }], false);
    const before = await size();
    store.commit([], true);
    assert.ok((await size()) > before);
    store.close();
  });

  test("a path without extension is a folder that is made", async () => {
    const store = await sqlite(join(folder, "deep", "data"))();
    assert.equal(store.location, join(folder, "deep", "data", "selfsame.db"));
    await store.close();
  });

  test("a file that is no database is refused with its path and left as it was", async () => {
    const file = freshFile();
    const content = "this is a letter, not a database\n".repeat(200);
    await writeFile(file, content);
    assert.throws(
      () => new SqliteStore(file),
      (error: Error) => error.name === "StoreCorrupt" && error.message.includes(file),
    );
    assert.equal(await readFile(file, "utf8"), content);
  });

  test("the database of another program is refused and left as it was", () => {
    const file = freshFile();
    const other = new DatabaseSync(file);
    other.exec("CREATE TABLE letters (text TEXT)");
    other.close();
    assert.throws(() => new SqliteStore(file), { name: "StoreCorrupt" });
    const again = new DatabaseSync(file);
    assert.deepEqual(
      again
        .prepare("SELECT name FROM sqlite_master")
        .all()
        .map((row) => row.name),
      ["letters"],
    );
    again.close();
  });

  test("a damaged page is found when the store opens", async () => {
    const file = freshFile();
    const store = new SqliteStore(file);
    const value = new Uint8Array(50_000).fill(1);
    store.commit(
      Array.from({ length: 10 }, (_, index) => ({ key: Uint8Array.of(index), value })),
      true,
    );
    store.close();
    const bytes = await readFile(file);
    bytes.fill(0xaa, 4096, 3 * 4096);
    await writeFile(file, bytes);
    assert.throws(() => new SqliteStore(file), { name: "StoreCorrupt" });
  });

  test("a file is its owner's alone, with its journals, and one that others may read is refused", {
    skip: process.platform === "win32" && "there are no such modes",
  }, async () => {
    const file = freshFile();
    const store = new SqliteStore(file);
    store.commit([{ key: Uint8Array.of(1), value: Uint8Array.of(1) }], true);
    for (const one of [file, `${file}-wal`]) assert.equal((await stat(one)).mode & 0o777, 0o600, one);
    store.close();
    for (const mode of [0o640, 0o604]) {
      await chmod(file, mode);
      const refusal = { name: "StoreFailed", message: new RegExp(`mode ${mode.toString(8)} .*chmod 600`) };
      assert.throws(() => new SqliteStore(file), refusal);
    }
    await chmod(file, 0o600);
    new SqliteStore(file).close();
  });

  test("a second opener is refused while the first is open", () => {
    const file = freshFile();
    const first = new SqliteStore(file);
    assert.throws(() => new SqliteStore(file), { name: "StoreFailed", message: /in use/ });
    first.close();
    new SqliteStore(file).close();
  });
});

test("what node:sqlite has answered is there after kill -9, and no commit is there in part", async () => {
  for (let round = 0; round < 3; round++) {
    const file = freshFile();
    const child = spawn(process.execPath, [fileURLToPath(new URL("writer.ts", import.meta.url)), file], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let answered = 0;
    const lines = createInterface({ input: child.stdout });
    lines.on("line", (line) => {
      answered = Number(line);
      if (answered >= 20 + round) child.kill("SIGKILL");
    });
    await once(child, "exit");
    const store = new SqliteStore(file);
    const [first, second] = [store.get(Uint8Array.of(1)), store.get(Uint8Array.of(2))];
    assert.ok(first);
    assert.deepEqual(first, second);
    const number = new DataView(first.buffer, first.byteOffset).getUint32(0);
    assert.ok(number >= answered, `${answered} was answered, ${number} is there`);
    store.close();
  }
});

describe("IndexedDB", () => {
  test("each tab takes a database of its own", async () => {
    Object.assign(globalThis, { indexedDB: new IDBFactory(), IDBKeyRange });
    const first = await indexedDb("tabs")();
    const second = await indexedDb("tabs")();
    assert.equal(first.location, "IndexedDB tabs");
    assert.equal(second.location, "IndexedDB tabs.1");
    await first.close();
    const third = await indexedDb("tabs")();
    assert.equal(third.location, "IndexedDB tabs");
    await second.close();
    await third.close();
  });
});
