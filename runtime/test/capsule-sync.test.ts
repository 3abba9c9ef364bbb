import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Capsule } from "../src/capsule/client.ts";
import { type Peer, peerAt } from "../src/capsule/peers.ts";
import { Replica } from "../src/capsule/replica.ts";
import { replicate } from "../src/capsule/replicate.ts";
import { serveCapsules } from "../src/capsule/serve.ts";
import { toBase32 } from "../src/codec/base32.ts";
import { memory } from "../src/stores/memory.ts";
import { sqlite } from "../src/stores/sqlite.ts";
import { bytes, capsules, module, Network, type Place, text } from "./capsule-support.ts";
import { leaf, member, until } from "./support.ts";

const OWNER = "11".repeat(32);
const NEVER_MS = 2 ** 30;

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "selfsame-sync-"));
});
after(() => rm(folder, { recursive: true }));

/** The owner's client of one replica. */
async function owner(network: Network, place: Place, metadata: Uint8Array): Promise<Capsule> {
  const { fetch, log } = network;
  return Capsule.open({ metadata, servers: [place], seed: OWNER, storage: memory(), fetch, log }, module);
}

/** What a reader reads at one replica alone; nothing if it does not have it. */
async function readAt(
  network: Network,
  place: Place,
  name: string,
  record: string,
): Promise<string | undefined> {
  const reader = await Capsule.open(
    { name, servers: [place], storage: memory(), fetch: network.fetch, log: network.log },
    module,
  );
  try {
    return text((await reader.read(record)).content);
  } catch {
    return undefined;
  } finally {
    await reader.close();
  }
}

describe("two replicas over sqlite", () => {
  test("come to hold the same, whoever asks, and one that joins empty catches up while it serves", async () => {
    const network = new Network();
    const first = await network.add(sqlite(join(folder, "first.db")));
    const metadata = capsules.signMetadata({ seed: OWNER, description: "two" });
    const writer = await owner(network, first, metadata);
    await writer.create();
    const contents = Array.from({ length: 300 }, (_, index) => bytes(`record ${index}`));
    const names = await writer.append(contents);
    const second = await network.add(sqlite(join(folder, "second.db")));
    const replicating = replicate(second.replica, {
      keep: [writer.name],
      urls: [first.url],
      fetch: network.fetch,
      interval_ms: NEVER_MS,
    });
    // It answers while it catches up: with what it has, or that it has nothing yet.
    assert.equal(await readAt(network, first, writer.name, names[0] ?? ""), "record 0");
    await replicating.joined;
    assert.deepEqual(second.replica.capsules, [writer.name]);
    assert.equal(await readAt(network, second, writer.name, names.at(-1) ?? ""), "record 299");
    const again = await second.replica.synchronise(writer.name, peerAt(first.url, network.fetch));
    assert.deepEqual(again, { agreed: true, pulled: 0, pushed: 0 });
    const [late] = await writer.append([bytes("late")]);
    const other = await first.replica.synchronise(writer.name, peerAt(second.url, network.fetch));
    // The record and its signature.
    assert.deepEqual(other, { agreed: true, pulled: 0, pushed: 2 });
    assert.equal(await readAt(network, second, writer.name, late ?? ""), "late");
    replicating.stop();
    await writer.close();
    await network.close();
  });

  test("a write is pushed at once, and a new capsule is created where it is missing", async () => {
    const network = new Network();
    const [first, second] = (await network.addMany(2)) as [Place, Place];
    const replicating = replicate(first.replica, {
      urls: [second.url],
      fetch: network.fetch,
      interval_ms: NEVER_MS,
    });
    const writer = await owner(network, first, capsules.signMetadata({ seed: OWNER }));
    await writer.create();
    await until("the capsule is at the other", () => second.replica.capsules.includes(writer.name));
    const [name = ""] = await writer.append([bytes("pushed")]);
    await until(
      "the record is too",
      async () => (await readAt(network, second, writer.name, name)) === "pushed",
    );
    // What is lost while nobody answers comes with the next comparison.
    second.isDown = true;
    const before = second.requests;
    const [lost = ""] = await writer.append([bytes("lost")]);
    await until("the push is lost", () => second.requests > before);
    second.isDown = false;
    await replicating.round();
    assert.equal(await readAt(network, second, writer.name, lost), "lost");
    replicating.stop();
    await writer.close();
    await network.close();
  });
});

describe("a replica that synchronises with others", () => {
  test("says when the other does not answer, lies or refuses, and goes on to the next", async () => {
    const network = new Network();
    const [first, silent, liar, good] = (await network.addMany(4)) as [Place, Place, Place, Place];
    const writer = await owner(network, good, capsules.signMetadata({ seed: OWNER }));
    await writer.create();
    const [name = ""] = await writer.append([bytes("kept")]);
    silent.isDown = true;
    liar.change = (response) => response.fill(0xff);
    const at = (place: Place) => peerAt(place.url, network.fetch);
    await assert.rejects(first.replica.synchronise(writer.name, at(silent)), { name: "Disconnected" });
    await assert.rejects(first.replica.synchronise(writer.name, at(liar)), { class: "Malformed" });
    assert.deepEqual(first.replica.capsules, []);
    const { joined, stop } = replicate(first.replica, {
      keep: [writer.name],
      urls: [silent.url, liar.url, good.url],
      fetch: network.fetch,
      interval_ms: NEVER_MS,
      log: network.log,
    });
    await joined;
    assert.equal(await readAt(network, first, writer.name, name), "kept");
    stop();
    const peer = at(good);
    const both = [1, 2].map(() => first.replica.synchronise(writer.name, peer));
    await assert.rejects(both[1] as Promise<unknown>, { name: "TooManyRequests" });
    await both[0];
    const going = first.replica.synchronise(writer.name, peer);
    await Promise.all([assert.rejects(going, { name: "Cancelled" }), first.replica.close()]);
    await writer.close();
    await network.close();
  });

  test("gives up what it asked when it is closed, lets go of whom it asked, and compares nothing any more", async () => {
    const replica = await Replica.open({ storage: memory() }, module);
    const name = toBase32(capsules.verifyMetadata(capsules.signMetadata({ seed: OWNER })).name);
    const asked = Promise.withResolvers<AbortSignal>();
    const silent: Peer = {
      id: new Uint8Array(32).fill(1),
      ask: (_, signal) => {
        asked.resolve(signal);
        return new Promise(() => undefined);
      },
    };
    const going = replica.synchronise(name, silent);
    const signal = await asked.promise;
    assert.equal(signal.aborted, false);
    const { joined, round } = replicate(replica, { keep: [name], urls: [], interval_ms: NEVER_MS });
    await joined;
    await Promise.all([assert.rejects(going, { name: "Cancelled" }), replica.close()]);
    assert.equal(signal.aborted, true);
    // Nobody is warned again and again of a replica that is gone.
    await round();
  });

  test("refuses names that are none and an interval that is none", async () => {
    const { replica } = await new Network().add();
    assert.throws(() => replicate(replica, { keep: ["no name"] }), { name: "BadConfig" });
    for (const interval_ms of [0, -1, Number.NaN]) {
      assert.throws(() => replicate(replica, { interval_ms }), { name: "BadConfig", message: /interval_ms/ });
    }
    await replica.close();
  });

  test("goes on when a listener of the application fails", async () => {
    const network = new Network();
    const place = await network.add();
    place.replica.onCapsule(() => {
      throw new Error("on purpose");
    });
    const writer = await owner(network, place, capsules.signMetadata({ seed: OWNER }));
    await writer.create();
    const [name = ""] = await writer.append([bytes("kept")]);
    assert.equal(await readAt(network, place, writer.name, name), "kept");
    assert.match(network.logged.join("\n"), /on purpose/);
    await writer.close();
    await network.close();
  });

  test("finds them in the mesh by the capsules' names, and pushes each capsule where it belongs", async () => {
    const network = new Network();
    const [first, second] = (await network.addMany(2)) as [Place, Place];
    const writers: Capsule[] = [];
    for (const description of ["one", "two"]) {
      const writer = await owner(network, first, capsules.signMetadata({ seed: OWNER, description }));
      await writer.create();
      await writer.append([bytes(description)]);
      writers.push(writer);
    }
    const { mesh, bootstrap } = await member();
    const served = await serveCapsules(mesh, first.replica);
    await served.published;
    const other = await leaf(bootstrap);
    const keep = writers.map(({ name }) => name);
    const { log } = network;
    const replicating = replicate(second.replica, { keep, mesh: other, interval_ms: NEVER_MS, log });
    await replicating.joined;
    assert.deepEqual([...second.replica.capsules].sort(), keep.sort(), network.logged.join("\n"));
    // What is written at the second comes to the first at once, whichever capsule it is of.
    for (const { name } of writers) {
      const options = { name, servers: [second], seed: OWNER, storage: memory(), fetch: network.fetch, log };
      const writer = await Capsule.open(options, module);
      const [record = ""] = await writer.append([bytes("pushed")]);
      await until("it is pushed", async () => (await readAt(network, first, name, record)) === "pushed");
      await writer.close();
    }
    replicating.stop();
    served.stop();
    for (const writer of writers) await writer.close();
    await other.close();
    await mesh.close();
    await network.close();
  });
});
