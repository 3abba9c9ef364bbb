/**
 * A capsule that is far larger than memory streams through a Durable Object in workerd: it is written there, read from there
 * after the object has started anew, fetched from there and by it. Its heap, its buffers and the memory of its module stay small all the
 * time. `CAPSULE_MIB` says how large; 1024 for `npm run test:capsule-1g`.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { join as joinPath } from "node:path";
import { after, before, describe, it, type TestContext } from "node:test";
import type { Miniflare } from "miniflare";
import { memory, sqlite } from "selfsame";
import { type Capsule, CapsuleModule, capsuleModule, openCapsule, peerAt } from "selfsame/capsule";
import { freePort } from "selfsame-twiitr/ports";

import { DATA } from "../lib/cluster.ts";
import { type Inspector, inspect } from "../lib/inspector.ts";
import { type LocalReplica, startLocalReplica } from "../lib/local-replica.ts";
import { startWorkerd } from "../lib/replicas.ts";

const MIB = Number(
  process.env.CAPSULE_MIB ?? (process.env.npm_lifecycle_event === "test:capsule-1g" ? 1024 : 64),
);
/** What the heap, its buffers and the module may have together. */
const LIMIT = 64e6;
/** Half of it are records as long as contents may be, half of it short ones; all are written a megabyte at a time. */
const LONG: number = 1024 * 1024 - 64;
const SHORT = 4096;
/** Collecting garbage takes time: so many looks at memory come between. */
const COLLECT_EVERY = 8;
const OWNER = "11".repeat(32);

const folder = joinPath(DATA, "capsule-1g");
const module = await CapsuleModule.instantiate(await capsuleModule());
const metadata = module.signMetadata({ seed: OWNER, description: "large" });
const names: string[] = [];
const hashes: string[] = [];

let miniflare: Miniflare;
let inspector: Inspector;
/** Where the object answers. */
let url: string;
let writer: Capsule;
let local: LocalReplica;

/** Bytes that do not compress, other ones each time. */
function noise(number: number, length: number): Buffer {
  const block = createHash("sha512").update(`${number}`).digest();
  const bytes = Buffer.alloc(length, block);
  for (let at = 0; at < length; at += SHORT) bytes.writeUInt32LE(number + at, at);
  return bytes;
}

/** The most that the object used, in bytes. */
interface Most {
  /** The heap of V8 and the memory of the module together, at any moment that was looked at. */
  together: number;
  /** These and the buffers outside the heap, when garbage was collected. */
  needed: number;
  /** The memory of the module. */
  wasm: number;
}

async function memoryOfModule(): Promise<number> {
  return ((await (await fetch(`${url}memory`)).json()) as { wasm: number }).wasm;
}

/** Collects garbage; whether it is done, as an isolate that has nothing else to do may not answer. */
async function collected(): Promise<boolean> {
  const done = inspector.collect().then(() => true);
  const busy = memoryOfModule()
    .then(memoryOfModule)
    .then(() => false);
  return Promise.race([done, busy]);
}

/** Looks at memory all the time, until it is told to end. */
class Watch {
  readonly #most: Most = { together: 0, needed: 0, wasm: 0 };
  readonly #watching: Promise<void>;
  #isDone = false;

  constructor() {
    this.#watching = this.#watch();
  }

  async end(): Promise<Most> {
    this.#isDone = true;
    await this.#watching;
    return this.#most;
  }

  async #watch(): Promise<void> {
    const most = this.#most;
    for (let looks = 0; !this.#isDone || looks < 2 * COLLECT_EVERY; looks++) {
      const isCollected = looks % COLLECT_EVERY === 0 && (await collected());
      const { usedSize, backingStorageSize } = await inspector.heap();
      const wasm = await memoryOfModule();
      most.wasm = Math.max(most.wasm, wasm);
      most.together = Math.max(most.together, usedSize + wasm);
      if (isCollected) most.needed = Math.max(most.needed, usedSize + backingStorageSize + wasm);
    }
  }
}

/** Does something, and holds that the object stays small meanwhile. */
async function small(context: TestContext, work: () => Promise<void>): Promise<void> {
  const watch = new Watch();
  const begun = performance.now();
  await work().finally(async () => {
    const { together, needed, wasm } = await watch.end();
    const seconds = ((performance.now() - begun) / 1000).toFixed(1);
    const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
    context.diagnostic(
      `${seconds} s; heap and module at most ${mb(together)}, with buffers ${mb(needed)}, module ${mb(wasm)}`,
    );
  });
  const { together, needed } = await watch.end();
  assert.ok(needed > 0, "garbage was collected");
  assert.ok(together < LIMIT, `heap and module take ${together} bytes`);
  assert.ok(needed < LIMIT, `heap, buffers and module take ${needed} bytes`);
}

async function open(): Promise<void> {
  const { key } = (await (await fetch(`${url}memory`)).json()) as { key: string };
  writer = await openCapsule({
    metadata,
    seed: OWNER,
    servers: [{ key, url }],
    storage: memory(),
    timing: PATIENT,
  });
}

/** The object is not to be quick here. */
const PATIENT = { attempt_ms: 60_000, deadline_ms: 600_000, hedge_ms: 60_000 };

before(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const inspectorPort = await freePort(9340);
  const data = joinPath(folder, "objects");
  miniflare = await startWorkerd("large/worker.ts", joinPath(folder, "worker"), { inspectorPort, data });
  url = `${await miniflare.ready}first/`;
  inspector = await inspect(inspectorPort);
  await open();
  local = await startLocalReplica(sqlite(joinPath(folder, "node.db")));
});

after(async () => {
  await writer?.close();
  inspector?.close();
  await miniflare?.dispose();
  await local?.close();
  rmSync(folder, { recursive: true, force: true });
});

describe(`a capsule of ${MIB} MiB and a Durable Object of less than ${LIMIT / 1e6} MB`, () => {
  it("is written there", async (context) => {
    await small(context, async () => {
      await writer.create();
      for (let mib = 0; mib < MIB; mib++) {
        const size = mib % 2 === 0 ? LONG : SHORT;
        const contents = Array.from({ length: Math.ceil(LONG / size) }, (_, index) =>
          noise(mib * LONG + index, size),
        );
        names.push(...(await writer.append(contents)));
        hashes.push(...contents.map((content) => createHash("sha256").update(content).digest("hex")));
      }
    });
  });

  it("is read there, each record verified, after it has started anew", async (context) => {
    assert.ok(names.length > MIB / 2, "it was written");
    await fetch(`${url}restart`);
    await writer.close();
    await open();
    await small(context, async () => {
      for (let at = 0; at < names.length; at += 128) {
        const records = await writer.readAll(names.slice(at, at + 128));
        for (const [index, record] of records.entries()) {
          if (record instanceof Error) throw record;
          const hash = createHash("sha256").update(record.content).digest("hex");
          assert.equal(hash, hashes[at + index]);
        }
      }
    });
  });

  it("is fetched from there by another replica", async (context) => {
    await small(context, async () => {
      const { agreed } = await local.replica.synchronise(writer.name, peerAt(url));
      assert.ok(agreed);
    });
  });

  it("is fetched by another object from there", async (context) => {
    await fetch(`${url}restart`);
    url = `${await miniflare.ready}second/`;
    await small(context, async () => {
      const query = new URLSearchParams({ name: writer.name, from: local.url });
      const { agreed } = (await (await fetch(`${url}synchronise?${query}`)).json()) as { agreed: boolean };
      assert.ok(agreed);
    });
  });
});
