import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { exportCapsule, importCapsule } from "../src/capsule/archive.ts";
import { Capsule } from "../src/capsule/client.ts";
import { CAPSULE_FILE_TYPE, replicaHandler } from "../src/capsule/http.ts";
import type { Replica } from "../src/capsule/replica.ts";
import { concat } from "../src/concat.ts";
import { memory } from "../src/stores/memory.ts";
import { bytes, capsules, module, Network, type Place, text } from "./capsule-support.ts";

const OWNER = "11".repeat(32);
const RECORDS = 120;

/** Two replicas, of which the first has a capsule; the owner's client, and the names of its records. */
async function begun(): Promise<{
  network: Network;
  first: Place;
  second: Place;
  owner: Capsule;
  names: string[];
}> {
  const network = new Network();
  const [first, second] = (await network.addMany(2)) as [Place, Place];
  const metadata = capsules.signMetadata({ seed: OWNER, description: "kept", sealed: true });
  const { fetch, log } = network;
  const options = { metadata, servers: [first], seed: OWNER, storage: memory(), fetch, log };
  const owner = await Capsule.open(options, module);
  await owner.create();
  const names = await owner.append(Array.from({ length: RECORDS }, (_, index) => bytes(`record ${index}`)));
  await owner.begin(names[50]);
  names.push(await owner.commit([bytes("a"), bytes("b")], { merge: [names[70] ?? ""] }));
  return { network, first, second, owner, names };
}

const ask = (replica: Replica) => (message: Uint8Array) => replica.request(message);

/** The whole file of a capsule as a replica has it. */
async function fileOf(replica: Replica, name: string): Promise<Uint8Array<ArrayBuffer>> {
  const pieces: Uint8Array[] = [];
  for await (const piece of exportCapsule(capsules, name, ask(replica))) pieces.push(piece);
  return concat(pieces);
}

function* piecesOf(file: Uint8Array, length: number): Generator<Uint8Array> {
  for (let at = 0; at < file.length; at += length) yield file.subarray(at, at + length);
}

describe("a whole capsule in a file", () => {
  test("is verified, stored elsewhere, read there and written again byte for byte", async () => {
    const { network, first, second, owner, names } = await begun();
    const file = await fileOf(first.replica, owner.name);
    const info = await capsules.verifyExport([file]);
    assert.deepEqual([info.records, info.holes], [RECORDS + 1, 0]);
    assert.deepEqual(await importCapsule(capsules, piecesOf(file, 1000), ask(second.replica)), info);
    assert.deepEqual(await fileOf(second.replica, owner.name), file);
    const { fetch, log } = network;
    const options = { name: owner.name, servers: [second], seed: OWNER, storage: memory(), fetch, log };
    const reader = await Capsule.open(options, module);
    assert.equal(text((await reader.read(names[7] ?? "")).content), "record 7");
    await reader.close();
    await owner.close();
    await network.close();
  });

  test("is given and taken over HTTP, and what is wrong is named with its place", async () => {
    const { network, first, second, owner } = await begun();
    const file = await fileOf(first.replica, owner.name);
    const given = await replicaHandler(first.replica)(new Request(`https://one/capsules/${owner.name}`));
    assert.equal(given.headers.get("content-type"), CAPSULE_FILE_TYPE);
    assert.deepEqual(new Uint8Array(await given.arrayBuffer()), file);
    const post = (body: BodyInit): Promise<Response> =>
      replicaHandler(second.replica)(
        new Request("https://two/", { method: "POST", headers: { "content-type": CAPSULE_FILE_TYPE }, body }),
      );
    const wrong = file.slice();
    const half = Math.floor(file.length / 2);
    wrong[half] = (wrong[half] ?? 0) ^ 1;
    const refused = await post(wrong);
    assert.equal(refused.status, 400);
    const { error, at } = (await refused.json()) as { error: string; at: number };
    assert.ok(error.length > 0 && at <= file.length);
    const taken = await post(file);
    assert.deepEqual(await taken.json(), { capsule: owner.name, records: RECORDS + 1, holes: 0 });
    const missing = await replicaHandler(second.replica)(new Request(`https://two/${"a".repeat(52)}`));
    assert.equal(((await missing.json()) as { error: string }).error, "NoCapsule");
    await owner.close();
    await network.close();
  });

  test("is asked of a path that has it, and another method is told those that a path has", async () => {
    const { network, first, owner } = await begun();
    const { name } = owner;
    const answer = replicaHandler(first.replica);
    const wrong = [
      ["GET", "/", "POST"],
      ["PUT", "/", "POST"],
      ["PUT", `/${name}`, "GET, POST"],
      ["HEAD", `/capsules/${name}`, "GET, POST"],
    ] as const;
    for (const [method, path, allowed] of wrong) {
      // A file is stored by no other method than POST.
      const headers = { "content-type": CAPSULE_FILE_TYPE };
      const refused = await answer(new Request(`https://one${path}`, { method, headers }));
      assert.deepEqual([refused.status, refused.headers.get("allow")], [405, allowed], `${method} ${path}`);
      const { error, detail } = (await refused.json()) as { error: string; detail: string };
      assert.equal(error, "BadMessage");
      assert.match(detail, /GET/);
    }
    const ofOne = replicaHandler({
      capsule: name,
      request: ask(first.replica),
      exportFile: () => first.replica.exportFile(name),
    });
    const given = await ofOne(new Request("https://one/"));
    assert.deepEqual(new Uint8Array(await given.arrayBuffer()), await fileOf(first.replica, name));
    await owner.close();
    await network.close();
  });

  test("is not made of false answers, and of a damaged file only what is right is stored", async () => {
    const { network, first, second, owner } = await begun();
    const lies = async (message: Uint8Array): Promise<Uint8Array> => {
      const response = await first.replica.request(message);
      // The body of the last record: answers that only say what there is are shorter.
      if (response.length > 400) response[response.length - 2] = (response.at(-2) ?? 0) ^ 1;
      return response;
    };
    await assert.rejects(async () => {
      for await (const _ of exportCapsule(capsules, owner.name, lies));
    });
    const file = await fileOf(first.replica, owner.name);
    for (const part of [0.3, 0.6, 0.9]) {
      const at = Math.floor(part * file.length);
      const wrong = file.slice();
      wrong[at] = (wrong[at] ?? 0) ^ 0x20;
      await assert.rejects(importCapsule(capsules, piecesOf(wrong, 777), ask(second.replica)), /, at \d+$/);
      const { records } = await capsules.verifyExport([await fileOf(second.replica, owner.name)]);
      assert.ok(records < RECORDS + 1);
    }
    await owner.close();
    await network.close();
  });
});
