/**
 * Bytes that turn in a value of SQLite: a replica in Node does not serve them, and has them again from another one. So it is in
 * wasmtime, whose store no program in JavaScript opens: `host/tests/damage.rs`.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { memory, type StoreFactory, sqlite } from "selfsame";
import { CapsuleModule, capsuleModule, openCapsule, peerAt } from "selfsame/capsule";

import { type LocalReplica, startLocalReplica } from "../lib/local-replica.ts";

const OWNER = "11".repeat(32);
const GUEST = "22".repeat(32);
/** Kinds of values, by the byte of their keys that follows the capsule's name. */
const KINDS = "ABEMNRS";
/** Of each value one byte is turned, and another one the next time: so many in all. */
const PLACES = 8;
/** Longer than what a store keeps in one piece. */
const LONG = 100_000;

const module = await CapsuleModule.instantiate(await capsuleModule());
const metadata = module.signMetadata({ seed: OWNER });
const capsule = module.verifyMetadata(metadata).name;
const contents = [
  ...Array.from({ length: 12 }, (_, number) => Buffer.alloc(300, number)),
  Buffer.alloc(LONG),
];

let folder: string;
let file: string;
const running = new Set<LocalReplica>();

async function start(storage: StoreFactory): Promise<LocalReplica> {
  const place = await startLocalReplica(storage);
  running.add(place);
  const close = async (): Promise<void> => {
    running.delete(place);
    await place.close();
  };
  return { ...place, close };
}

/** How many of the records a reader of this replica alone gets; what is not refused is what was written. */
async function served(place: LocalReplica, name: string, names: readonly string[]): Promise<number> {
  const reader = await openCapsule({ name, servers: [place], storage: memory() });
  let count = 0;
  for (const [index, record] of names.entries()) {
    const read = await reader.read(record).catch(() => undefined);
    if (read === undefined) continue;
    assert.ok(contents[index]?.equals(read.content), "what is served is what was written");
    count++;
  }
  await reader.close();
  return count;
}

/** What follows the capsule's name in a key, if it is there. */
function kindOf(key: Uint8Array): string | undefined {
  const at = Buffer.from(key).indexOf(capsule);
  return at < 0 ? undefined : String.fromCharCode(key[at + capsule.length] ?? 0);
}

/** Turns one byte of each value of a kind; how many values there are. */
async function turn(kind: string, place: number): Promise<number> {
  const store = await sqlite(file)();
  const entries = await store.scan(new Uint8Array(1), new Uint8Array(64).fill(0xff), 2 ** 31 - 1);
  const chosen = entries.filter(([key, value]) => kindOf(key) === kind && value.length > 0);
  for (const [key, value] of chosen) {
    const at = Math.floor((value.length * place) / PLACES);
    const turned = value.with(at, (value[at] as number) ^ 0x40);
    await store.commit([{ key, value: turned }], true);
  }
  await store.close();
  return chosen.length;
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "selfsame-damage-"));
  file = join(folder, "capsules.db");
});
after(async () => {
  for (const place of running) await place.close();
  await rm(folder, { recursive: true });
});

test("turned bytes in SQLite are not served and come again from another replica", async () => {
  const healthy = await start(memory());
  const writer = await openCapsule({ metadata, seed: OWNER, servers: [healthy], storage: memory() });
  await writer.create();
  const names = await writer.append(contents);
  await writer.govern({ add: [Buffer.from(module.deriveKey(Buffer.from(GUEST, "hex"))).toString("hex")] });
  const first = await start(sqlite(file));
  assert.ok((await first.replica.synchronise(writer.name, peerAt(healthy.url))).agreed);
  await first.close();
  let refused = 0;
  for (const kind of KINDS) {
    for (let place = 0; place < PLACES; place++) {
      const what = `byte ${place} / ${PLACES} of ${kind}`;
      assert.ok((await turn(kind, place)) > 0, what);
      const damaged = await start(sqlite(file));
      refused += names.length - (await served(damaged, writer.name, names));
      const healed = await damaged.replica.synchronise(writer.name, peerAt(healthy.url));
      assert.ok(healed.agreed, what);
      assert.equal(await served(damaged, writer.name, names), names.length, what);
      await damaged.close();
      const again = await start(sqlite(file));
      assert.equal(await served(again, writer.name, names), names.length, `${what}, once more`);
      await again.close();
    }
  }
  assert.ok(refused >= PLACES * names.length, `${refused} were refused meanwhile`);
  await writer.close();
  await healthy.close();
});
