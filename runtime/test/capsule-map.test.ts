import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CapsuleMap, type MapOptions } from "../src/capsule/map.ts";
import type { CapsulePlan } from "../src/capsule/module.ts";
import { memory } from "../src/stores/memory.ts";
import { bytes, capsules, module, Network, type Place, text } from "./capsule-support.ts";

const OWNER = "11".repeat(32);
const WRITER = "22".repeat(32);
const HASTY = { hedge_ms: 20, attempt_ms: 200, avoid_ms: 50, deadline_ms: 1000 };

/** Opens a map at the replicas of a network. */
function open(network: Network, options: Partial<MapOptions>): Promise<CapsuleMap> {
  const { fetch, log, places: servers } = network;
  return CapsuleMap.open({ storage: memory(), servers, fetch, log, timing: HASTY, ...options }, module);
}

/** A network of some replicas, a new map there, and its owner's client. */
async function begun(count: number, options: Partial<MapOptions> = {}, plan: Partial<CapsulePlan> = {}) {
  const network = new Network();
  await network.addMany(count);
  const metadata = capsules.signMetadata({ seed: OWNER, ...plan });
  const owner = await open(network, { metadata, seed: OWNER, ...options });
  await owner.create();
  const name = owner.capsule.name;
  return { network, owner, name };
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

test("a map is set, read, listed, deleted and remembers", async () => {
  const { network, owner, name } = await begun(3);
  assert.equal(await owner.get("a"), undefined);
  await owner.set("a", bytes("one"));
  await owner.set("b/1", "two");
  await owner.setJson("b/2", { three: 3 });
  await owner.batch([
    { key: "a", value: "four" },
    { key: "c", value: "five" },
    { key: "b/1", value: undefined },
  ]);
  const reader = await open(network, { name });
  assert.equal(text((await reader.get("a")) ?? bytes("nothing")), "four");
  assert.equal(await reader.getText("b/1"), undefined);
  assert.deepEqual(await reader.getJson("b/2"), { three: 3 });
  assert.deepEqual(await all(reader.keys()), ["a", "b/2", "c"]);
  assert.deepEqual(await all(reader.keys({ prefix: "b/" })), ["b/2"]);
  assert.deepEqual(await all(reader.keys({ start: "b", end: "c" })), ["b/2"]);
  assert.deepEqual(await all(reader.keys({ limit: 1 })), ["a"]);
  const listed = (await all(reader.list())).map(({ key, value }) => [key, text(value)]);
  assert.deepEqual(listed, [
    ["a", "four"],
    ["b/2", '{"three":3}'],
    ["c", "five"],
  ]);
  const was = (await all(reader.history("a"))).map(({ value }) => value && text(value));
  assert.deepEqual(was, ["four", "one"]);
  const deleted = await all(reader.history("b/1"));
  assert.deepEqual(
    deleted.map(({ value }) => value && text(value)),
    [undefined, "two"],
  );
  assert.match(deleted[0]?.version ?? "", /^[0-9a-f]{64}\/3$/);
  await assert.rejects(reader.set("a", "x"), { name: "NotAWriter" });
  await assert.rejects(owner.set("", "x"), { name: "BadInput" });
  await assert.rejects(owner.set("a", new Uint8Array(1 << 20)), { name: "TooLarge" });
  await owner.close();
  await assert.rejects(owner.get("a"), { name: "Cancelled" });
  await reader.close();
  await network.close();
});

test("keys and values that a map cannot tell apart or hold are refused by name", async () => {
  const { network, owner } = await begun(1);
  const half = "a\ud800b";
  for (const ask of [
    () => owner.set(half, "x"),
    () => owner.get(half),
    () => owner.delete(half),
    () => all(owner.history(half)),
    () => all(owner.keys({ prefix: half })),
    () => all(owner.keys({ start: half })),
    () => all(owner.keys({ end: half })),
    () => owner.set("a", half),
  ]) {
    await assert.rejects(ask, { name: "BadInput", message: /at 1 is half a surrogate pair, U\+D800/ });
  }
  await owner.set("\u{1f600}", "\u{1f600}");
  assert.equal(await owner.getText("\u{1f600}"), "\u{1f600}");
  await owner.set("k".repeat(1024), "x");
  const long = { name: "TooLarge", message: /at most 1024 bytes of UTF-8; got 1026/ };
  await assert.rejects(owner.set("\u00fc".repeat(513), "x"), long);
  const large = { name: "TooLarge", message: /at most 1040384 bytes; got 1040385/ };
  await assert.rejects(owner.set("a", new Uint8Array(1_040_385)), large);
  await owner.close();
  await network.close();
});

describe("several writers", () => {
  test("see each other's changes, and all readers the same", async () => {
    const { network, owner, name } = await begun(3);
    const writer = await open(network, { name, seed: WRITER });
    await assert.rejects(writer.set("k", "too early"), { name: "NotAWriter" });
    await owner.capsule.govern({ add: [writer.capsule.key] });
    await writer.set("k", "writer");
    assert.equal(await owner.getText("k"), "writer");
    await owner.set("k", "owner");
    assert.equal(await writer.getText("k"), "owner");
    const both = Array.from({ length: 20 }, (_, at) => [
      owner.set("k", `owner ${at}`),
      writer.set("k", `writer ${at}`),
    ]);
    await Promise.all(both.flat());
    const reader = await open(network, { name });
    const last = await reader.getText("k");
    assert.match(last ?? "", / 19$/);
    assert.deepEqual([await owner.getText("k"), await writer.getText("k")], [last, last]);
    assert.ok((await all(reader.history("k"))).length > 20);
    await Promise.all([owner.close(), writer.close(), reader.close()]);
    await network.close();
  });

  test("go on while any one replica is down, and nothing is lost", async () => {
    const { network, owner, name } = await begun(3);
    const wanted: string[] = [];
    for (const place of network.places) {
      place.isDown = true;
      const key = `without ${place.url}`;
      await owner.set(key, "here");
      wanted.push(key);
      const reader = await open(network, { name });
      assert.deepEqual(await all(reader.keys()), [...wanted].sort());
      await reader.close();
      place.isDown = false;
    }
    for (const place of network.places.slice(1)) place.isDown = true;
    await assert.rejects(owner.set("k", "too few"), { name: "NoQuorum" });
    await assert.rejects(owner.get("k"), { name: "NoQuorum" });
    await owner.close().catch(() => undefined);
    await network.close();
  });
});

test("replicas that change bytes make nobody believe what was never set", async () => {
  const { network, owner, name } = await begun(2);
  await owner.batch(Array.from({ length: 50 }, (_, at) => ({ key: `key ${at}`, value: `value ${at}` })));
  const [liar, honest] = network.places as [Place, Place];
  let round = 0;
  liar.change = (response) => {
    const at = (round * 13) % response.length;
    response[at] = (response[at] ?? 0) ^ 4;
    return response;
  };
  for (round = 0; round < 30; round++) {
    const alone = await open(network, { name, servers: [liar], timing: { ...HASTY, deadline_ms: 300 } });
    const read = await alone.getText(`key ${round}`).catch(() => "refused");
    assert.ok(["refused", `value ${round}`].includes(read ?? ""), `round ${round}: ${read}`);
    await alone.close();
  }
  const both = await open(network, { name, servers: [liar, honest], readQuorum: 1 });
  assert.equal(await both.getText("key 7"), "value 7");
  await Promise.all([owner.close(), both.close()]);
  await network.close();
});

test("what is set late is signed when it is read, when it is told to, and at the end", async () => {
  const { network, owner, name } = await begun(2, { signing: "late" });
  const reader = await open(network, { name });
  await owner.set("a", "1");
  assert.equal(await reader.get("a"), undefined);
  assert.equal(await owner.getText("a"), "1");
  assert.equal(await reader.getText("a"), "1");
  await owner.set("b", "2");
  await owner.sign();
  assert.equal(await reader.getText("b"), "2");
  await owner.set("c", "3", { sign: true });
  assert.equal(await reader.getText("c"), "3");
  await owner.set("d", "4");
  await owner.close();
  assert.equal(await reader.getText("d"), "4");
  await reader.close();
  await network.close();
});

describe("a subscription", () => {
  test("hears what changes, until its signal aborts", async () => {
    const { network, owner, name } = await begun(1);
    await owner.set("a/0", "before");
    const reader = await open(network, { name });
    const controller = new AbortController();
    const changes = reader.subscribe({ prefix: "a/", signal: controller.signal, every_ms: 10 });
    const first = changes.next();
    // It has begun when it knows the present version, which it asks for before this.
    await reader.get("a/0");
    await owner.batch([
      { key: "a/1", value: "one" },
      { key: "b", value: "two" },
      { key: "a/0", value: undefined },
    ]);
    const heard = [await first, await changes.next()].map(({ value }) => value);
    const told = heard.map(
      (change) => change?.type === "changed" && [change.key, change.value && text(change.value)],
    );
    assert.deepEqual(told, [
      ["a/1", "one"],
      ["a/0", undefined],
    ]);
    const end = changes.next();
    controller.abort();
    assert.deepEqual(await end, { done: true, value: undefined });
    const aborted = reader.subscribe({ signal: AbortSignal.abort() });
    assert.deepEqual(await aborted.next(), { done: true, value: undefined });
    await Promise.all([owner.close(), reader.close()]);
    await network.close();
  });

  test("fails when the map is closed", async () => {
    const { network, owner } = await begun(1);
    const next = owner.subscribe().next();
    const failed = assert.rejects(next, { name: "Cancelled" });
    await owner.get("a");
    await owner.close();
    await failed;
    await network.close();
  });
});

test("a large map is opened with little, listed in pages, and closed to those without its key", async () => {
  const { network, owner, name } = await begun(1, {}, { sealed: true });
  const keys = Array.from({ length: 3000 }, (_, at) => `key ${String(at).padStart(5, "0")}`);
  for (let at = 0; at < keys.length; at += 750) {
    await owner.batch(keys.slice(at, at + 750).map((key) => ({ key, value: key.slice(4) })));
  }
  const friend = await open(network, { name, seed: WRITER });
  await assert.rejects(friend.get("key 00001"), { name: "NotAReader" });
  await owner.capsule.govern({ readers: [friend.capsule.readerKey] });
  assert.equal(await friend.getText("key 00001"), "00001");
  assert.deepEqual(await all(friend.keys()), keys);
  const some = await all(friend.list({ start: "key 01000", end: "key 01600" }));
  assert.deepEqual(
    some.map(({ value }) => text(value)),
    keys.slice(1000, 1600).map((key) => key.slice(4)),
  );
  const [place] = network.places as [Place];
  place.requests = 0;
  const again = await open(network, { name, seed: WRITER });
  assert.equal(await again.getText("key 02345"), "02345");
  assert.ok(place.requests < 20, `${place.requests} requests`);
  await Promise.all([owner.close(), friend.close(), again.close()]);
  await network.close();
});
