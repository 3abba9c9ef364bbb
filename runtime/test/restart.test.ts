import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { LogRecord, MeshEvent } from "../src/entries/node.ts";
import { MemoryStore } from "../src/stores/memory.ts";
import type { Operation } from "../src/stores/store.ts";
import { leaf, member, type TestNode, until } from "./support.ts";

/** A store that commits nothing from some moment on. */
class FailingStore extends MemoryStore {
  fails = false;

  override commit(operations: readonly Operation[]): void {
    if (this.fails) throw new Error("the disk is full");
    super.commit(operations);
  }
}

const UNOWNED = { unowned: true } as const;

// Every instance that the package makes, so that a test can damage the memory of one: a real trap follows.
const instances: WebAssembly.Instance[] = [];
const instantiate = WebAssembly.instantiate;

function damage(instance: WebAssembly.Instance): void {
  const { memory } = instance.exports as { memory: WebAssembly.Memory };
  // Past the input buffer, whose place is not known, nothing that the allocator or the core trusts is left.
  new Uint8Array(memory.buffer).fill(0xff);
}

describe("a core that traps", () => {
  let node: TestNode;
  let core: WebAssembly.Instance;
  const events: MeshEvent[] = [];
  const log: LogRecord[] = [];

  before(async () => {
    Object.assign(WebAssembly, {
      instantiate: async (module: WebAssembly.Module, imports: WebAssembly.Imports) => {
        const instance = await instantiate(module, imports);
        instances.push(instance);
        return instance;
      },
    });
    node = await member({ onEvent: (event) => events.push(event), log: (record) => log.push(record) });
    // The first instance derives the identity, the second is the node.
    core = instances[1] as WebAssembly.Instance;
    await node.mesh.serve("alive", () => new Response("yes"), UNOWNED);
  });
  after(async () => {
    Object.assign(WebAssembly, { instantiate });
    await node.mesh.close();
  });

  test("fails what is pending with one typed error and serves again from its store", async () => {
    const { id } = node.mesh;
    const before = instances.length;
    const watching = node.mesh.watch("alive", UNOWNED);
    assert.equal((await watching.next()).value?.[0]?.peer, id);
    damage(core);
    await assert.rejects(node.mesh.status(), { name: "Disconnected", message: /started again/ });
    await until("the node has restarted", () => events.some(({ type }) => type === "restarted"));
    assert.equal(instances.length, before + 1);
    assert.ok(log.some(({ level, text }) => level === "error" && text.startsWith("the core trapped")));
    const status = await node.mesh.status();
    assert.equal(status.id, id);
    const caller = await leaf(node.bootstrap);
    await until(
      "the service is published again",
      async () => (await caller.find("alive", UNOWNED)).length === 1,
    );
    assert.equal(await (await caller.fetch("https://alive.mesh/", UNOWNED)).text(), "yes");
    await caller.close();
    await until("whoever follows the name is told again", async () => {
      const { value } = await watching.next();
      return value?.[0]?.peer === id;
    });
    await watching.return?.();
    instances.splice(before + 1);
  });

  test("again and again is started again each time, later and later, and tells of it", async (t) => {
    const unstable = (): number => events.filter(({ type }) => type === "unstable").length;
    t.mock.timers.enable({ apis: ["setTimeout"] });
    // One trap was in the test before.
    for (const [pause_s, told] of [
      [2, 0],
      [4, 0],
      [8, 0],
      [16, 1],
      [32, 2],
      [60, 3],
      [60, 4],
    ] as const) {
      const restarted = Promise.withResolvers<void>();
      const stop = node.mesh.onEvent(({ type }) => type === "restarted" && restarted.resolve());
      damage(instances.at(-1) as WebAssembly.Instance);
      await assert.rejects(node.mesh.status(), { name: "Disconnected", message: /started again/ });
      await assert.rejects(node.mesh.status(), { name: "Disconnected" }, "refused until then");
      assert.equal(unstable(), told);
      const before = instances.length;
      t.mock.timers.tick(pause_s * 1000 - 1);
      assert.equal(instances.length, before, `${pause_s} s`);
      t.mock.timers.tick(1);
      await restarted.promise;
      stop();
    }
    t.mock.timers.reset();
    await until("the service is published again", async () => {
      const found = await node.mesh.find("alive", UNOWNED);
      return found.length === 1;
    });
  });
});

test("a node whose core traps while it starts says why, in place of a node", async () => {
  Object.assign(WebAssembly, {
    instantiate: async (module: WebAssembly.Module, imports: WebAssembly.Imports) => {
      const instance = await instantiate(module, imports);
      const step = (): never => {
        throw new WebAssembly.RuntimeError("unreachable");
      };
      return { exports: { ...instance.exports, step } };
    },
  });
  try {
    await assert.rejects(member(), { name: "Disconnected", message: /the core stopped/ });
  } finally {
    Object.assign(WebAssembly, { instantiate });
  }
});

test("a node whose store fails ends, and says so to whoever asks it for more", async () => {
  const store = new FailingStore();
  const ended = Promise.withResolvers<Error>();
  const log: LogRecord[] = [];
  const { mesh } = await member({
    storage: () => store,
    onEvent: (event) => event.type === "ended" && ended.resolve(event.error),
    log: (record) => log.push(record),
  });
  store.fails = true;
  const published = mesh.serve("lost", () => new Response(), UNOWNED);
  assert.equal((await ended.promise).name, "StoreFailed");
  await published.catch(() => undefined);
  await assert.rejects(mesh.status(), { name: "StoreFailed", message: /^memory: the disk is full$/ });
  assert.ok(log.some(({ level, text }) => level === "error" && text.startsWith("the node has ended")));
  await mesh.close();
});
