import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Capsule } from "../src/capsule/client.ts";
import { History, type Readable } from "../src/capsule/history.ts";
import type { CapsulePlan } from "../src/capsule/module.ts";
import type { CapsuleOptions } from "../src/capsule/options.ts";
import { memory } from "../src/stores/memory.ts";
import { bytes, capsules, module, Network, text } from "./capsule-support.ts";

const OWNER = "11".repeat(32);
const WRITER = "22".repeat(32);

/** A network of one replica with a new capsule, a client of its owner and one of another writer. */
async function begun(plan: Partial<CapsulePlan> = {}): Promise<[Network, Capsule, Capsule]> {
  const network = new Network();
  await network.add();
  const writers = [Buffer.from(capsules.deriveKey(Buffer.from(WRITER, "hex"))).toString("hex")];
  const metadata = capsules.signMetadata({ seed: OWNER, writers, ...plan });
  const [place] = network.places;
  assert.ok(place);
  const name = await place.replica.hold(metadata);
  const owner = await open(network, { name, seed: OWNER });
  return [network, owner, await open(network, { name, seed: WRITER })];
}

function open(network: Network, options: Partial<CapsuleOptions>): Promise<Capsule> {
  const { fetch, log, places: servers } = network;
  return Capsule.open({ storage: memory(), servers, fetch, log, ...options }, module);
}

const contents = ({ records }: History): string[] =>
  records.map(({ record }) => (record === undefined ? "sealed" : text(record.content)));
const numbered = (from: number, to: number): string[] =>
  Array.from({ length: from - to + 1 }, (_, index) => String(from - index));

/** Every record stands before all that it points to. */
function assertOrder({ records }: History): void {
  const places = new Map(records.map(({ name }, index) => [name, index]));
  for (const [index, { backpointers }] of records.entries()) {
    for (const name of backpointers) assert.ok((places.get(name) ?? Number.POSITIVE_INFINITY) > index);
  }
}

describe("a history", () => {
  test("is read back step by step, past shortcuts, and goes on with what comes", async () => {
    const [network, owner, writer] = await begun();
    for (let index = 0; index < 40; index++) await owner.append([bytes(String(index))]);
    const history = new History(owner);
    await history.refresh();
    assert.deepEqual([contents(history), history.isWhole], [[], false]);
    await history.more(10);
    assert.deepEqual(contents(history), numbered(39, 30));
    assert.deepEqual(
      history.records.map(({ parents }) => parents.length),
      Array.from({ length: 10 }, () => 1),
    );
    await owner.append(Array.from({ length: 8 }, (_, index) => bytes(String(40 + index))));
    await history.refresh();
    assert.deepEqual(contents(history), numbered(47, 30));
    await history.more(Number.POSITIVE_INFINITY);
    assert.deepEqual(contents(history), numbered(47, 0));
    assert.deepEqual([history.isWhole, history.heads.size], [true, 1]);
    assertOrder(history);
    await Promise.all([owner.close(), writer.close()]);
    await network.close();
  });

  test("has branches and what merges them, also those of one writer", async () => {
    const [network, owner, writer] = await begun();
    const [root = ""] = await owner.append([bytes("root")]);
    await writer.begin(root);
    const [theirs = ""] = await writer
      .append([bytes("theirs 1"), bytes("theirs 2")])
      .then((all) => all.slice(-1));
    const [ours = ""] = await owner.append([bytes("ours")]);
    const history = new History(writer);
    await history.refresh();
    assert.deepEqual([...history.heads].sort(), [theirs, ours].sort());
    await owner.append([bytes("merge")], { merge: [theirs] });
    await history.refresh();
    await history.more(100);
    assertOrder(history);
    assert.deepEqual(contents(history).toSorted(), ["merge", "ours", "root", "theirs 1", "theirs 2"]);
    assert.deepEqual(history.records[0]?.parents, [ours, theirs]);
    await owner.begin(root);
    const [left = ""] = await owner.append([bytes("left")]);
    await owner.begin(ours);
    await owner.append([bytes("own merge")], { merge: [left] });
    await history.refresh();
    await history.more(100);
    assert.equal(contents(history).length, 7);
    assert.ok(history.isWhole);
    assertOrder(history);
    await Promise.all([owner.close(), writer.close()]);
    await network.close();
  });

  test("of sealed records has the headers, for whoever may not read them", async () => {
    const [network, owner, writer] = await begun({ sealed: true });
    await owner.append([bytes("secret"), bytes("too")]);
    const stranger = new History(writer);
    await stranger.refresh();
    await stranger.more(10);
    assert.deepEqual(contents(stranger), ["sealed", "sealed"]);
    assert.equal(stranger.records[0]?.backpointers[0], stranger.records[1]?.name);
    await Promise.all([owner.close(), writer.close()]);
    await network.close();
  });

  test("that could not be read on goes on later", async () => {
    const [network, owner, writer] = await begun();
    for (let index = 0; index < 5; index++) await owner.append([bytes(String(index))]);
    let left = 2;
    const readable: Readable = {
      heads: () => owner.heads(),
      header: (name) => owner.header(name),
      readAll: async (names) => {
        if (--left < 0) throw new Error("the line is cut");
        return owner.readAll(names);
      },
    };
    const history = new History(readable);
    await history.refresh();
    await assert.rejects(history.more(5), { message: "the line is cut" });
    left = 100;
    await history.more(5);
    assert.deepEqual(contents(history), numbered(4, 0));
    await Promise.all([owner.close(), writer.close()]);
    await network.close();
  });
});

test("the path of a proof leads from the signed record to the one that is proven, each pointing to the next", async () => {
  const [network, owner, writer] = await begun();
  const [first = ""] = await owner.append(Array.from({ length: 30 }, (_, index) => bytes(String(index))));
  const { name, path } = capsules.verifyProof(await owner.prove(first));
  const { heads } = await owner.heads();
  assert.equal(name, first);
  assert.equal(path[0]?.name, heads[0]?.name);
  assert.ok(path.length > 1 && path.length < 12, `${path.length} steps`);
  const names = [...path.map((step) => step.name), ...(path.at(-1)?.name === first ? [] : [first])];
  for (const [index, { backpointers }] of path.entries()) {
    const next = names[index + 1];
    if (next !== undefined) assert.ok(backpointers.includes(next));
  }
  assert.equal(names.at(-1), first);
  await Promise.all([owner.close(), writer.close()]);
  await network.close();
});

test("a replica holds what it was given once, and refuses what is no metadata", async () => {
  const network = new Network();
  const { replica } = await network.add();
  const metadata = capsules.signMetadata({ seed: OWNER });
  const name = await replica.hold(metadata);
  assert.equal(await replica.hold(metadata), name);
  assert.deepEqual(replica.capsules, [name]);
  const changed = metadata.slice();
  changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
  await assert.rejects(replica.hold(changed), { name: "BadSignature" });
  await network.close();
});
