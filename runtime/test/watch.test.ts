import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { NodeMesh } from "../src/entries/node.ts";
import { leaf, member, type TestNode, until } from "./support.ts";

const UNOWNED = { unowned: true } as const;

describe("who serves a name", () => {
  let first: TestNode;
  let second: TestNode;
  let watcher: NodeMesh;

  before(async () => {
    first = await member();
    second = await member({ bootstrap: first.bootstrap });
    watcher = await leaf(first.bootstrap);
  });
  after(async () => {
    for (const mesh of [watcher, second.mesh, first.mesh]) await mesh.close();
  });

  test("is told at once and after each change, and the last state to whoever is slow", async () => {
    const ids = async (): Promise<string[] | undefined> => {
      const { value } = await watching.next();
      return value?.map(({ peer, version }) => `${peer} ${version}`).sort();
    };
    const watching = watcher.watch("live", UNOWNED);
    assert.deepEqual(await ids(), []);
    await first.mesh.serve("live", () => new Response(), { ...UNOWNED, version: "1" });
    assert.deepEqual(await ids(), [`${first.mesh.id} 1`]);
    await second.mesh.serve("live", () => new Response(), UNOWNED);
    await first.mesh.publish("live", { version: "2" });
    const both = [`${first.mesh.id} 2`, `${second.mesh.id} `].sort();
    // Another watcher says when this one has been told of both.
    for await (const providers of watcher.watch("live", UNOWNED)) {
      if (providers.length === 2 && providers.some(({ version }) => version === "2")) break;
    }
    assert.deepEqual(await ids(), both);
    await second.mesh.withdraw("live");
    assert.deepEqual(await ids(), [`${first.mesh.id} 2`]);
    assert.deepEqual(await watching.return?.(), { done: true, value: undefined });
    assert.deepEqual(await watching.next(), { done: true, value: undefined });
  });

  test("is told with how providers have answered", async () => {
    const answer = Promise.withResolvers<Response>();
    const asked = Promise.withResolvers<void>();
    await first.mesh.serve(
      "busy",
      () => {
        asked.resolve();
        return answer.promise;
      },
      UNOWNED,
    );
    const response = watcher.fetch("https://busy.mesh/", UNOWNED);
    await asked.promise;
    const busy = (await watcher.health()).find(({ name }) => name === "busy");
    assert.equal(busy?.owner, undefined);
    assert.equal(busy?.providers[0]?.peer, first.mesh.id);
    assert.equal(busy?.providers[0]?.inFlight, 1);
    answer.resolve(new Response("done"));
    await (await response).text();
    const [idle] = (await watcher.health()).find(({ name }) => name === "busy")?.providers ?? [];
    assert.equal(idle?.inFlight, 0);
    assert.equal(typeof idle?.latency_ms, "number");
    assert.equal(idle?.ejected, false);
  });

  test("is remembered of the names that were called last, nobody's included", async () => {
    await watcher.fetch("https://nowhere.mesh/", UNOWNED).catch(() => undefined);
    const nowhere = (await watcher.health()).find(({ name }) => name === "nowhere");
    assert.deepEqual(nowhere?.providers, []);
    for (let count = 0; count < 70; count++) {
      const abort = new AbortController();
      const call = watcher.fetch(`https://name-${count}.mesh/`, { ...UNOWNED, signal: abort.signal });
      abort.abort();
      await call.catch(() => undefined);
    }
    const names = (await watcher.health()).map(({ name }) => name);
    assert.equal(names.length, 64);
    assert.ok(!names.includes("nowhere") && names.includes("name-69"));
  });

  test("is followed until the signal is aborted, also while nothing changes", async () => {
    const abort = new AbortController();
    const watching = watcher.watch("quiet", { ...UNOWNED, signal: abort.signal });
    await watching.next();
    const next = watching.next();
    const another = watching.next();
    abort.abort();
    assert.deepEqual(await next, { done: true, value: undefined });
    assert.deepEqual(await another, { done: true, value: undefined });
    const late = watcher.watch("quiet", { ...UNOWNED, signal: abort.signal });
    assert.deepEqual(await late.next(), { done: true, value: undefined });
  });

  test("is followed until the iteration is left while nothing changes", async () => {
    const watching = watcher.watch("quiet", UNOWNED);
    await watching.next();
    const next = watching.next();
    await watching.return?.();
    assert.deepEqual(await next, { done: true, value: undefined });
  });

  test("is followed until the node is closed", async () => {
    const other = await leaf(first.bootstrap);
    const seen: number[] = [];
    const following = (async () => {
      for await (const providers of other.watch("quiet", UNOWNED)) seen.push(providers.length);
    })();
    await until("it has begun", () => seen.length > 0);
    await other.close();
    await following;
    await assert.rejects(other.watch("quiet", UNOWNED).next(), { name: "NotJoined" });
  });

  test("is followed for no more names than the core takes", async () => {
    const other = await leaf(first.bootstrap);
    const watching = Array.from({ length: 300 }, () => other.watch("quiet", UNOWNED));
    const results = await Promise.allSettled(watching.map((each) => each.next()));
    const refused = results.filter(({ status }) => status === "rejected");
    assert.equal(refused.length, 300 - 256);
    assert.equal((refused[0] as PromiseRejectedResult).reason.name, "TooManyRequests");
    await watching[0]?.return?.();
    const again = other.watch("quiet", UNOWNED);
    assert.deepEqual(await again.next(), { done: false, value: [] });
    await other.close();
  });

  test("has options that are checked", () => {
    assert.throws(() => watcher.watch("BAD", UNOWNED), { name: "BadName" });
    assert.throws(() => watcher.watch("good"), { name: "BadConfig", message: /owner/ });
  });
});
