import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Capsule } from "../src/capsule/client.ts";
import type { CapsulePlan } from "../src/capsule/module.ts";
import type { CapsuleOptions } from "../src/capsule/options.ts";
import { peerAt } from "../src/capsule/peers.ts";
import { serveCapsules } from "../src/capsule/serve.ts";
import type { MeshError } from "../src/codec/code.ts";
import { Writer } from "../src/codec/field.ts";
import { fromHex, toHex } from "../src/codec/hex.ts";
import { memory } from "../src/stores/memory.ts";
import { sqlite } from "../src/stores/sqlite.ts";
import { bytes, capsules, module, Network, type Place, text } from "./capsule-support.ts";
import { leaf, member } from "./support.ts";

const OWNER = "11".repeat(32);
const WRITER = "22".repeat(32);
const READER = "33".repeat(32);
/** Short, as these tests wait until a client gives up. */
const HASTY = { hedge_ms: 20, attempt_ms: 200, avoid_ms: 50, deadline_ms: 500 };

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "selfsame-client-"));
});
after(() => rm(folder, { recursive: true }));

/** Opens a capsule at some replicas. */
function open(network: Network, options: Partial<CapsuleOptions>): Promise<Capsule> {
  const { fetch, log, places: servers } = network;
  return Capsule.open({ storage: memory(), servers, fetch, log, timing: HASTY, ...options }, module);
}

/** A network of some replicas, a new capsule there, and its owner's client. */
async function begun(count: number, plan: Partial<CapsulePlan> = {}): Promise<[Network, Capsule]> {
  const network = new Network();
  await network.addMany(count);
  const metadata = capsules.signMetadata({ seed: OWNER, ...plan });
  const owner = await open(network, { metadata, seed: OWNER });
  await owner.create();
  return [network, owner];
}

test("a replica for certain owners takes capsules of nobody else", async () => {
  const network = new Network();
  const [owner, other] = [OWNER, WRITER].map((seed) => toHex(capsules.deriveKey(fromHex(seed, 32, "seed"))));
  await network.add(memory(), { owners: [other ?? ""] });
  const metadata = capsules.signMetadata({ seed: OWNER });
  const capsule = await open(network, { metadata, seed: OWNER });
  await assert.rejects(capsule.create(), { name: "OwnerRefused" });
  await network.add(memory(), { owners: [other ?? "", owner ?? ""] });
  const allowed = await open(network, { metadata, seed: OWNER, servers: network.places.slice(1) });
  await allowed.create();
  await assert.rejects(network.add(memory(), { owners: ["ab"] }), { name: "BadConfig" });
  await capsule.close();
  await allowed.close();
  await network.close();
});

const contentsOf = (records: readonly ({ content: Uint8Array } | MeshError)[]): string[] =>
  records.map((record) => ("content" in record ? text(record.content) : record.name));

test("a capsule is created, written, read, proven and described", async () => {
  const [network, owner] = await begun(3, { description: "a diary" });
  const names = await owner.append([bytes("one"), bytes("two")]);
  const tree = await owner.commit([bytes("a"), bytes("b"), bytes("c")], { sign: false });
  await owner.sign();
  const reader = await open(network, { name: owner.name });
  const missing = "ab".repeat(32);
  assert.deepEqual(contentsOf(await reader.readAll([...names, missing])), ["one", "two", "NoRecord"]);
  await assert.rejects(reader.read(missing), { name: "NoRecord" });
  const { subrecords, kind, sequence, backpointers } = await reader.read(tree);
  assert.deepEqual([subrecords.map(text), kind, sequence], [["a", "b", "c"], "tree", 2]);
  assert.equal(backpointers[0], names[1]);
  assert.equal(await reader.subrecords(tree), 3);
  assert.deepEqual((await reader.readParts(tree, [2, 0])).map(text), ["c", "a"]);
  const { heads, agreed, answers, refused, forks } = await reader.heads();
  assert.deepEqual(
    heads.map(({ name }) => name),
    [tree],
  );
  assert.deepEqual([agreed, answers.length >= 2, refused, forks], [true, true, [], []]);
  const { writers, epoch, epochRecords, metadata } = await reader.describe();
  assert.deepEqual([writers, epoch, epochRecords], [[{ number: 0, key: owner.key }], 0, 0]);
  assert.equal(capsules.verifyMetadata(metadata).description, "a diary");
  await assert.rejects(reader.append([bytes("x")]), { name: "NotAWriter" });
  await owner.close();
  await assert.rejects(owner.heads(), { name: "Cancelled" });
  await reader.close();
  await network.close();
});

test("replicas of the same program are servers as they are, beside others", async () => {
  const network = new Network();
  const [first, second, third] = (await network.addMany(3)) as [Place, Place, Place];
  const servers = [first.replica, second.replica, third];
  const metadata = capsules.signMetadata({ seed: OWNER });
  const owner = await open(network, { metadata, seed: OWNER, servers });
  await owner.create();
  const [name = ""] = await owner.append([bytes("here")]);
  assert.deepEqual([first.requests, second.requests, third.requests > 0], [0, 0, true]);
  await first.replica.close();
  const reader = await open(network, { name: owner.name, servers });
  assert.equal(text((await reader.read(name)).content), "here");
  await second.replica.close();
  await assert.rejects(owner.append([bytes("too few")]), { name: "NoQuorum" });
  await owner.close();
  await reader.close();
  await network.close();
});

describe("quorums", () => {
  test("two of three suffice when one is down, and one does not", async () => {
    const [network, owner] = await begun(3);
    const [first, second] = network.places as [Place, Place];
    first.isDown = true;
    const [name = ""] = await owner.append([bytes("without the first")]);
    const reader = await open(network, { name: owner.name });
    assert.equal(text((await reader.read(name)).content), "without the first");
    assert.equal((await reader.heads()).heads[0]?.name, name);
    second.isDown = true;
    const tooFew = owner.append([bytes("too few")]);
    await assert.rejects(tooFew, {
      name: "NoQuorum",
      message: /: https:\/\/replica-0\/: connection refused; https:/,
    });
    await assert.rejects(reader.heads(), { name: "NoQuorum" });
    assert.equal(text((await reader.read(name)).content), "without the first");
    first.isDown = false;
    second.isDown = false;
    const [after = ""] = await owner.append([bytes("again")]);
    assert.equal(text((await reader.read(after)).content), "again");
    await Promise.all([owner.close(), reader.close()]);
    await network.close();
  });

  test("what cannot be a quorum, or servers that are none, is refused", async () => {
    const network = new Network();
    const [place] = (await network.addMany(1)) as [Place];
    const name = "a".repeat(52);
    const refused = { name: "BadConfig" };
    const refusedWith = (message: RegExp) => ({ ...refused, message });
    await assert.rejects(
      open(network, { name, writeQuorum: 2 }),
      refusedWith(/writeQuorum .* 1 to 1; got 2/),
    );
    await assert.rejects(open(network, { name, readQuorum: 0 }), refusedWith(/readQuorum .* got 0/));
    const twice = open(network, { name, servers: [place, place] });
    await assert.rejects(twice, refusedWith(/has the key of another one/));
    const keyless = [{ url: "http://127.0.0.1:9/" }] as unknown as CapsuleOptions["servers"];
    await assert.rejects(open(network, { name, servers: keyless }), refusedWith(/127\.0\.0\.1:9\/ signs/));
    await assert.rejects(open(network, { name, servers: [] }), refusedWith(/1 to 32 servers.*got 0/));
    await assert.rejects(open(network, {}), refused);
    await assert.rejects(open(network, { name, servers: undefined }), refused);
    await network.close();
  });
});

describe("replicas that lie", () => {
  test("make no reader take a changed byte for true, wherever it is", async () => {
    const [network, owner] = await begun(2);
    const [name = ""] = await owner.append([bytes("nothing but the truth")]);
    const [honest, liar] = network.places as [Place, Place];
    let round = 0;
    let lies = 0;
    liar.change = (response) => {
      const at = (round * 7) % response.length;
      response[at] = (response[at] ?? 0) ^ 1;
      lies++;
      return response;
    };
    for (round = 0; round < 40; round++) {
      const alone = await open(network, { name: owner.name, servers: [liar] });
      const read = await alone.read(name).then(
        ({ content }) => text(content),
        () => "refused",
      );
      assert.ok(["refused", "nothing but the truth"].includes(read), `byte ${round * 7}: ${read}`);
      await alone.close();
    }
    assert.ok(lies >= 40);
    const both = await open(network, { name: owner.name, servers: [liar, honest], readQuorum: 1 });
    assert.equal(text((await both.read(name)).content), "nothing but the truth");
    await Promise.all([owner.close(), both.close()]);
    await network.close();
  });

  test("with the key of another are none of the servers", async () => {
    const [network, owner] = await begun(1);
    const [place] = network.places as [Place];
    const wrong = await open(network, {
      name: owner.name,
      servers: [{ url: place.url, key: "44".repeat(32) }],
    });
    await assert.rejects(wrong.heads(), { name: "BadSignature" });
    await Promise.all([owner.close(), wrong.close()]);
    await network.close();
  });

  test("that show an older state are found out, also by a client that was started anew", async () => {
    const [network, owner] = await begun(1);
    const [place] = network.places as [Place];
    await owner.append([bytes("old")]);
    const old = await network.add(memory(), { seed: "55".repeat(32) });
    await old.replica.synchronise(owner.name, peerAt(place.url, network.fetch));
    await owner.append([bytes("new")]);
    const storage = sqlite(join(folder, "reader.db"));
    const servers = [place, old];
    const options = { name: owner.name, servers, storage, readQuorum: 1 };
    const reader = await open(network, options);
    const { heads } = await reader.heads();
    assert.equal(heads[0]?.sequence, 1);
    place.isDown = true;
    await assert.rejects(reader.heads(), { name: "RolledBack" });
    await reader.close();
    const again = await open(network, options);
    await assert.rejects(again.heads(), { name: "RolledBack" });
    place.isDown = false;
    assert.equal((await again.heads()).heads[0]?.sequence, 1);
    await Promise.all([owner.close(), again.close()]);
    await network.close();
  });
});

describe("the owner's word", () => {
  test("grants readers the key, and takes it from them for what comes later", async () => {
    const [network, owner] = await begun(1, { sealed: true });
    const reader = await open(network, { name: owner.name, seed: READER });
    const [before = ""] = await owner.append([bytes("before")]);
    await assert.rejects(reader.read(before), { name: "NotAReader" });
    await owner.govern({ readers: [reader.readerKey] });
    assert.equal(text((await reader.read(before)).content), "before");
    await owner.govern({ newEpoch: true });
    const [later = ""] = await owner.append([bytes("later")]);
    await assert.rejects(reader.read(later), { name: "NotAReader" });
    assert.equal(text((await reader.read(before)).content), "before");
    assert.equal(text((await owner.read(later)).content), "later");
    await Promise.all([owner.close(), reader.close()]);
    await network.close();
  });

  test("adds a writer and revokes it: what it writes afterwards counts for nothing", async () => {
    const [network, owner] = await begun(1);
    const writer = await open(network, { name: owner.name, seed: WRITER });
    await assert.rejects(writer.append([bytes("too early")]), { name: "NotAWriter" });
    await owner.govern({ add: [writer.key] });
    const [kept = ""] = await writer.append([bytes("kept")]);
    const { writers } = await owner.describe();
    const number = writers.find(({ key }) => key === writer.key)?.number ?? 0;
    assert.ok(number > 0);
    await owner.govern({ revoke: [{ writer: number, heads: [kept] }] });
    await assert.rejects(writer.append([bytes("too late")]));
    const reader = await open(network, { name: owner.name });
    assert.equal(text((await reader.read(kept)).content), "kept");
    await assert.rejects(writer.govern({ add: [writer.key] }));
    await Promise.all([owner.close(), writer.close(), reader.close()]);
    await network.close();
  });
});

test("what is more than the module takes at a time is refused, and nothing else is lost", async () => {
  const [network, owner] = await begun(1, {});
  const going = owner.append([bytes("one")]);
  const large = Array.from({ length: 17 }, () => new Uint8Array(1_000_000));
  await assert.rejects(owner.append(large), { name: "TooLarge", message: /in parts/ });
  const [name = ""] = await going;
  assert.equal(text((await owner.read(name)).content), "one");
  assert.deepEqual(network.logged, []);
  await owner.close();
  await network.close();
});

test("a writer that was stopped goes on where it was, and merges a branch", async () => {
  const [network, owner] = await begun(1);
  const [root = ""] = await owner.append([bytes("root")]);
  const [left = ""] = await owner.append([bytes("left")]);
  await owner.close();
  const again = await open(network, { name: owner.name, seed: OWNER });
  const { after, sequence } = await again.begin(root);
  assert.deepEqual([after, sequence], [root, 2]);
  const [right = ""] = await again.append([bytes("right")]);
  const { heads } = await again.heads();
  assert.deepEqual(heads.map(({ name }) => name).sort(), [left, right].sort());
  const [merge = ""] = await again.append([bytes("merged")], { merge: [left] });
  assert.deepEqual((await again.read(merge)).backpointers, [right, left]);
  assert.deepEqual(
    (await again.heads()).heads.map(({ name }) => name),
    [merge],
  );
  await again.close();
  await network.close();
});

describe("files", () => {
  test("a proof file proves a record to whoever has nothing else, and no byte of it can be changed", async () => {
    const [network, owner] = await begun(1);
    const [name = ""] = await owner.append([bytes("proven")]);
    const file = await owner.prove(name);
    const info = capsules.verifyProof(file);
    assert.deepEqual([info.name, text(info.body ?? new Uint8Array())], [name, "proven"]);
    assert.equal(info.header.sequence, 0);
    assert.equal(capsules.verifyProof(await owner.prove(name, { body: false })).body, undefined);
    for (let at = 0; at < file.length; at++) {
      const changed = file.slice();
      changed[at] = (changed[at] ?? 0) ^ 1;
      assert.throws(() => capsules.verifyProof(changed), /, at \d+$/, `byte ${at}`);
    }
    await owner.close();
    await network.close();
  });

  test("an export file is verified in pieces of any length, and damage is named with its place", async () => {
    const [network, owner] = await begun(1);
    const [name = ""] = await owner.append([bytes("exported")]);
    const { metadata } = await owner.describe();
    const proof = await owner.prove(name);
    // The file ends with the header, the length of the proof, anchor u8 | n u16 | header | signature, 1 and the body.
    const body = "exported".length;
    const signature = proof.slice(-(1 + body + 64), -(1 + body));
    const header = proof.slice(-(1 + body + 64 + 52), -(1 + body + 64));
    const file = new Writer().raw(bytes("selfsame capsule 1\n")).bytes(metadata).u32(0);
    file.u8(2).raw(header).raw(signature).raw(bytes("exported")).u8(0).u64(1n).u32(0);
    const whole = file.copy();
    const pieces = (length: number): Uint8Array[] =>
      Array.from({ length: Math.ceil(whole.length / length) }, (_, at) =>
        whole.subarray(at * length, (at + 1) * length),
      );
    for (const length of [1, 100, whole.length]) {
      const { records, holes } = await capsules.verifyExport(pieces(length));
      assert.deepEqual([records, holes], [1, 0]);
    }
    await assert.rejects(capsules.verifyExport(pieces(100).slice(0, -1)), { name: "BadFile" });
    await assert.rejects(capsules.verifyExport([...pieces(100), Uint8Array.of(0)]), { name: "BadFile" });
    whole[whole.length - 20] = (whole.at(-20) ?? 0) ^ 1;
    await assert.rejects(capsules.verifyExport([whole]), { message: /, at \d+$/ });
    await owner.close();
    await network.close();
  });
});

test("a capsule is opened by its name in the mesh alone", async () => {
  const [network, owner] = await begun(1);
  const [place] = network.places as [Place];
  const { mesh, bootstrap } = await member();
  const served = await serveCapsules(mesh, place.replica);
  await served.published;
  const node = await leaf(bootstrap);
  const options = { name: owner.name, mesh: node, servers: undefined, seed: OWNER, timing: {} };
  const capsule = await open(network, options);
  const [name = ""] = await capsule.append([bytes("over the mesh")]);
  assert.equal(text((await owner.read(name)).content), "over the mesh");
  await assert.rejects(open(network, { ...options, name: "a".repeat(52) }), { name: "NoProvider" });
  served.stop();
  await Promise.all([capsule.close(), owner.close()]);
  await node.close();
  await mesh.close();
  await network.close();
});
