import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join as joinPath } from "node:path";
import { after, before, describe, test } from "node:test";
import { utf8 } from "../src/codec/field.ts";
import { randomBytes } from "../src/driver/random.ts";
import { State } from "../src/driver/state.ts";
import { join, sqlite } from "../src/entries/node.ts";
import { MemoryStore } from "../src/stores/memory.ts";
import { SqliteStore } from "../src/stores/sqlite.ts";

describe("a store that survives", () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(joinPath(tmpdir(), "selfsame-state-"));
  });
  after(() => rm(folder, { recursive: true }));

  test("keeps the identity over a restart, and the boot id changes", async () => {
    const address = "wss://example.com/.mesh";
    const options = { network: "n", storage: sqlite(joinPath(folder, "kept")), address };
    const first = await join(options);
    const { id, bootId } = first;
    await first.close();
    const second = await join(options);
    assert.equal(second.id, id);
    assert.notEqual(second.bootId, bootId);
    await second.close();
    const elsewhere = await join({ ...options, network: "other" });
    assert.notEqual(elsewhere.id, id);
    await elsewhere.close();
  });

  test("keeps the public key, and computes it again when what is stored is not ours", async () => {
    const file = joinPath(folder, "key.db");
    const options = { network: "n", storage: sqlite(file), address: "wss://example.com/.mesh" };
    const first = await join(options);
    await first.close();
    const place = Uint8Array.from([0, ...utf8("known key")]);
    const stored = (): Uint8Array => {
      const store = new SqliteStore(file);
      const value = store.get(place);
      store.close();
      return value ?? new Uint8Array();
    };
    const known = stored();
    assert.equal(known.length, 64);
    for (const hostile of [known.map((byte, at) => (at === 0 ? byte ^ 1 : byte)), known.subarray(1)]) {
      const store = new SqliteStore(file);
      store.commit([{ key: place, value: hostile }], true);
      store.close();
      const again = await join(options);
      assert.equal(again.id, first.id);
      await again.close();
      assert.deepEqual(stored(), known);
    }
  });

  test("is refused when a newer version wrote it, and left as it was", async () => {
    const file = joinPath(folder, "newer.db");
    const store = new SqliteStore(file);
    const schema = Uint8Array.from([0, ...utf8("schema")]);
    store.commit([{ key: schema, value: Uint8Array.of(2) }], true);
    store.close();
    await assert.rejects(
      join({ network: "n", storage: sqlite(file), address: "wss://a/" }),
      (error: Error) => {
        assert.equal(error.name, "StoreTooNew");
        assert.ok(error.message.includes(file));
        return true;
      },
    );
    const again = new SqliteStore(file);
    assert.deepEqual(again.get(schema), Uint8Array.of(2));
    again.close();
  });

  test("is refused when it holds what no version wrote", async () => {
    for (const [name, entries] of Object.entries({
      stray: [["letter", utf8("dear")]],
      seedless: [
        ["schema", Uint8Array.of(1)],
        ["seed", new Uint8Array(31)],
      ],
      wrong: [["schema", new Uint8Array(4)]],
    } as const)) {
      const file = joinPath(folder, `${name}.db`);
      const store = new SqliteStore(file);
      const operations = entries.map(([key, value]) => ({ key: Uint8Array.from([0, ...utf8(key)]), value }));
      store.commit(operations, true);
      store.close();
      await assert.rejects(
        join({ network: "n", storage: sqlite(file), address: "wss://a/" }),
        { name: "StoreCorrupt" },
        name,
      );
    }
  });

  test("is refused with its path when the core cannot read its entries", async () => {
    const file = joinPath(folder, "core.db");
    const options = { network: "n", storage: sqlite(file), address: "wss://example.com/.mesh" };
    const node = await join(options);
    await node.publish("kept", { unowned: true });
    await node.close();
    const store = new SqliteStore(file);
    const entries = store.scan(Uint8Array.of(1), Uint8Array.of(2), 100);
    assert.ok(entries.length > 0, "the core keeps something");
    store.commit(
      entries.map(([key]) => ({ key, value: new Uint8Array(40).fill(0xee) })),
      true,
    );
    store.close();
    await assert.rejects(join({ ...options, log: () => undefined }), (error: Error) => {
      assert.equal(error.name, "StoreCorrupt");
      assert.ok(error.message.includes(file));
      return true;
    });
  });
});

test("a shared store holds no seed and keeps nodes apart", async () => {
  const inner = new MemoryStore();
  const shared = Object.assign(Object.create(inner) as MemoryStore, {
    get: inner.get.bind(inner),
    scan: inner.scan.bind(inner),
    commit: inner.commit.bind(inner),
    shared: true,
  });
  await assert.rejects(new State(shared).open(undefined, randomBytes), {
    name: "BadConfig",
    message: /seed/,
  });
  const seed = new Uint8Array(32).fill(1);
  const [left, right] = [new State(shared), new State(shared)];
  for (const [state, id] of [
    [left, 1],
    [right, 2],
  ] as const) {
    assert.deepEqual(await state.open(seed, randomBytes), seed);
    state.separate(new Uint8Array(32).fill(id));
    await state.commit([{ key: utf8("k"), value: Uint8Array.of(id) }], true);
  }
  assert.deepEqual(await left.get(utf8("k")), Uint8Array.of(1));
  assert.deepEqual(await right.get(utf8("k")), Uint8Array.of(2));
  assert.equal((await left.scan(utf8("a"), utf8("z"), 10)).length, 1);
  assert.equal(await left.own("seed"), undefined);
});
