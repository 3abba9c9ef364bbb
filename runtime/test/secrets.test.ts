import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { before, describe, test } from "node:test";
import { encodeConfig, Writer } from "../src/codec/index.ts";

interface CoreExports {
  readonly memory: WebAssembly.Memory;
  alloc(length: number): number;
  create(at: number, length: number): number;
  step(handle: number, at: number, length: number): number;
  destroy(handle: number): void;
  derive(at: number, length: number): number;
}

/** As many bytes of a secret as no memory holds by chance. */
const TELLING = 8;

describe("the core's memory", () => {
  const seed = crypto.getRandomValues(new Uint8Array(32));
  const entropy = crypto.getRandomValues(new Uint8Array(32));
  let module: WebAssembly.Module;
  let core: CoreExports;
  before(async () => {
    module = new WebAssembly.Module(await readFile(new URL("../core/core.wasm", import.meta.url)));
  });

  /** Gives bytes to one of the exports, as a host does, and removes them from the input buffer. */
  function give(bytes: Uint8Array, to: (at: number, length: number) => number): number {
    const at = core.alloc(bytes.length) >>> 0;
    new Uint8Array(core.memory.buffer).set(bytes, at);
    const result = to(at, bytes.length);
    new Uint8Array(core.memory.buffer).fill(0, at, at + bytes.length);
    return result;
  }

  function holds(secret: Uint8Array): boolean {
    const memory = Buffer.from(core.memory.buffer);
    return [0, 12, 24].some((at) => memory.indexOf(secret.subarray(at, at + TELLING)) >= 0);
  }

  function instantiate(): void {
    core = new WebAssembly.Instance(module, {}).exports as unknown as CoreExports;
  }

  test("holds a secret that a host leaves in it", () => {
    instantiate();
    const at = core.alloc(32) >>> 0;
    new Uint8Array(core.memory.buffer).set(seed, at);
    assert.ok(holds(seed));
  });

  for (const [what, knownKey] of [
    ["no known key", new Uint8Array()],
    ["a known key", new Uint8Array(64)],
  ] as const) {
    test(`holds neither seed nor entropy once a node with ${what} is made`, () => {
      instantiate();
      const config = encodeConfig({
        seed,
        entropy,
        knownKey,
        network: "n",
        role: "leaf",
        addresses: [],
        bootstraps: [],
        dials: ["wss"],
        allowPrivate: false,
        trustOnFirstUse: false,
        admission: "open",
        takeOver: false,
        idle_ms: 60_000,
        domain: "",
      });
      const handle = give(config, core.create);
      assert.notEqual(handle, 0);
      assert.ok(!holds(seed) && !holds(entropy), "after create");
      give(new Writer().u64(BigInt(Date.now())).written(), (at, length) => core.step(handle, at, length));
      assert.ok(!holds(seed) && !holds(entropy), "after a step");
      core.destroy(handle);
      assert.ok(!holds(seed) && !holds(entropy), "after destroy");
    });
  }

  test("holds no seed once an identity, an owner and a grant were derived", () => {
    instantiate();
    const of = (kind: number) => new Writer().u8(kind).raw(seed).text("n");
    const [now, nobody] = [BigInt(Date.now()), new Uint8Array()];
    const grant = of(3)
      .text("name")
      .raw(new Uint8Array(32))
      .u64(now)
      .u64(now + 1n)
      .bytes(nobody);
    for (const request of [of(1).bytes(new Uint8Array()), of(2), grant]) {
      const header = give(request.written(), core.derive) >>> 0;
      const view = new DataView(core.memory.buffer);
      assert.equal(view.getUint16(view.getUint32(header, true), true), 0);
      assert.ok(!holds(seed));
    }
  });
});
