import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { IDBFactory, IDBKeyRange } from "fake-indexeddb";
import { CAPSULE_FILE_TYPE, replicaHandler } from "../src/capsule/http.ts";
import { CapsuleModule } from "../src/capsule/module.ts";
import { Replica, type ReplicaOptions } from "../src/capsule/replica.ts";
import { MAX_REQUEST } from "../src/capsule/room.ts";
import { serveCapsules } from "../src/capsule/serve.ts";
import { Shelf } from "../src/capsule/shelf.ts";
import { fromBase32, toBase32 } from "../src/codec/base32.ts";
import type { CapsuleInput } from "../src/codec/capsule.ts";
import { type CodeName, codeNumber, MeshError } from "../src/codec/code.ts";
import { Reader } from "../src/codec/field.ts";
import { toHex } from "../src/codec/hex.ts";
import { writeOperations } from "../src/codec/operation.ts";
import { State } from "../src/driver/state.ts";
import { indexedDb } from "../src/stores/indexed-db.ts";
import { MemoryStore, memory } from "../src/stores/memory.ts";
import { sqlite } from "../src/stores/sqlite.ts";
import type { Operation, StoreFactory } from "../src/stores/store.ts";
import { leaf, member } from "./support.ts";

interface Conversation {
  seed: string;
  now_ms: number;
  capsule: string;
  exchanges: { what: string; request: string; response: string }[];
}

const read = (file: string): Promise<Buffer> => readFile(new URL(file, import.meta.url));
const unhex = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(Buffer.from(text, "hex"));

let folder: string;
let module: WebAssembly.Module;
let conversation: Conversation;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "selfsame-capsule-"));
  module = await WebAssembly.compile(Uint8Array.from(await read("../core/capsule.wasm")));
  conversation = JSON.parse((await read("capsule-conversation.json")).toString("utf8"));
});
after(() => rm(folder, { recursive: true }));

function open(storage: StoreFactory, more: Partial<ReplicaOptions> = {}): Promise<Replica> {
  const { seed, now_ms } = conversation;
  return Replica.open({ storage, seed, now: () => now_ms, ...more }, module);
}

/** The request of an exchange by what it is about. */
function exchange(what: string): Uint8Array<ArrayBuffer> {
  const found = conversation.exchanges.find((one) => one.what === what);
  assert.ok(found, what);
  return unhex(found.request);
}

function codeOf(response: Uint8Array): number {
  const reader = new Reader(response);
  reader.u8();
  return reader.u16();
}

/** Plays the whole conversation; every answer is that of the replica that is no WebAssembly. */
async function converse(ask: (message: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>): Promise<void> {
  for (const { what, request, response } of conversation.exchanges) {
    assert.equal(toHex(await ask(unhex(request))), response, what);
  }
}

/** A store that answers later, as those of Deno and browsers do. */
class LaterStore extends MemoryStore {
  readonly commits: number[] = [];
  failing = false;
  /** Fails the next commit alone. */
  failsOnce = false;
  /** What durable commits wait for. */
  gate: Promise<void> | undefined;
  #last: Promise<unknown> = Promise.resolve();

  #later<T>(work: () => T | Promise<T>): Promise<T> {
    const done = this.#last.then(() => work());
    this.#last = done.catch(() => undefined);
    return done;
  }

  override get(key: Uint8Array): never {
    const copy = key.slice();
    return this.#later(() => super.get(copy)) as never;
  }

  override scan(start: Uint8Array, end: Uint8Array, limit: number): never {
    return this.#later(() => super.scan(start, end, limit)) as never;
  }

  override commit(operations: readonly Operation[], durable = false): never {
    return this.#later(async () => {
      if (durable) await this.gate;
      if (this.failing || this.failsOnce) {
        this.failsOnce = false;
        throw new Error("the disk is full");
      }
      this.commits.push(operations.length);
      super.commit(operations);
    }) as never;
  }
}

describe("a replica answers like the one that is no WebAssembly", () => {
  test("with its store in memory", async () => {
    const replica = await open(memory());
    await converse((message) => replica.request(message));
    await replica.close();
  });

  test("with node:sqlite, opened again before each request", async () => {
    const file = join(folder, "again.db");
    const { seed, now_ms } = conversation;
    // Sessions are forgotten with the memory, and with them how much a reader has verified.
    for (const { what, request, response } of conversation.exchanges) {
      const replica = await Replica.open({ storage: sqlite(file), seed, now: () => now_ms }, module);
      const answered = await replica.request(unhex(request));
      if (!/proving|reading|parts|heads|unproven|sub-records/.test(what)) {
        assert.equal(toHex(answered).slice(22), response.slice(22), what);
      }
      assert.equal(codeOf(answered), codeOf(unhex(response)), what);
      await replica.close();
    }
  });

  test("with IndexedDB", async () => {
    Object.assign(globalThis, { indexedDB: new IDBFactory(), IDBKeyRange });
    const replica = await open(indexedDb("capsules"));
    await converse((message) => replica.request(message));
    await replica.close();
  });

  test("with a store that answers later", async () => {
    const replica = await open(() => new LaterStore());
    await converse((message) => replica.request(message));
    await replica.close();
  });

  test("over HTTP", async () => {
    const replica = await open(memory());
    const handler = replicaHandler(replica);
    await converse(async (body) => {
      const response = await handler(new Request("https://replica/", { method: "POST", body }));
      assert.equal(response.status, 200);
      return new Uint8Array(await response.arrayBuffer());
    });
    await replica.close();
  });
});

describe("a replica", () => {
  test("keeps its key with what it stores, and names what it holds", async () => {
    const file = join(folder, "key.db");
    const first = await Replica.open({ storage: sqlite(file) }, module);
    const { key } = first;
    const heard: string[] = [];
    first.onCapsule((name) => heard.push(name));
    for (const what of ["a capsule", "another capsule"])
      assert.equal(codeOf(await first.request(exchange(what))), 0);
    await first.close();
    const again = await Replica.open({ storage: sqlite(file) }, module);
    assert.equal(again.key, key);
    assert.equal(heard.length, 2);
    assert.deepEqual([...again.capsules].sort(), heard.sort());
    assert.ok(heard.includes(toBase32(unhex(conversation.capsule))));
    assert.equal(toHex(fromBase32(heard[0] as string, 32, "a name")).length, 64);
    await again.close();
  });

  test("answers many requests at a time, and several share a commit", async () => {
    const store = new LaterStore();
    const replica = await open(() => store);
    await replica.request(exchange("a capsule"));
    store.commits.length = 0;
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => replica.request(exchange("records and a signature"))),
    );
    assert.ok(answers.every((answer) => codeOf(answer) === 0));
    assert.ok(store.commits.length < 10, `${store.commits.length} commits`);
    await replica.close();
  });

  test("tells whoever waits when its store fails, and works once that does", async () => {
    const store = new LaterStore();
    const replica = await open(() => store, { log: () => undefined });
    await replica.request(exchange("a capsule"));
    store.failing = true;
    const failed = await Promise.all([
      replica.request(exchange("records and a signature")),
      replica.request(exchange("sub-records, and a body in chunks")),
    ]);
    for (const response of failed) assert.equal(codeOf(response), codeNumber("StoreFailed"));
    store.failing = false;
    assert.equal(codeOf(await replica.request(exchange("records and a signature"))), 0);
    assert.equal(codeOf(await replica.request(exchange("reading"))), 0);
    await replica.close();
  });

  test("acknowledges nothing before it is durable, while it answers others", async () => {
    const store = new LaterStore();
    const replica = await open(() => store);
    await replica.request(exchange("a capsule"));
    const { promise, resolve } = Promise.withResolvers<void>();
    store.gate = promise;
    let isAnswered = false;
    const writing = replica.request(exchange("records and a signature")).then((response) => {
      isAnswered = true;
      return response;
    });
    assert.equal(codeOf(await replica.request(exchange("heads and metadata"))), 0);
    for (let turn = 0; turn < 20; turn++) await new Promise((next) => setImmediate(next));
    assert.equal(isAnswered, false);
    resolve();
    assert.equal(codeOf(await writing), 0);
    await replica.close();
  });

  test("writes nothing that was asked for in the belief that a commit which failed had worked", async () => {
    const store = new LaterStore();
    const told: CapsuleInput[] = [];
    const answer = (input: CapsuleInput): void => void told.push(input);
    const nothing = (): void => undefined;
    const shelf = new Shelf({ state: new State(store), answer, fail: answer, log: nothing, onPut: nothing });
    const commit = (tag: number): void => {
      const operations = writeOperations([{ key: Uint8Array.of(tag), value: new Uint8Array() }]);
      shelf.ask({ type: "StoreCommit", tag, durable: tag === 1, operations });
    };
    const turns = async (): Promise<void> => {
      for (let turn = 0; turn < 20; turn++) await new Promise((next) => setImmediate(next));
    };
    store.failsOnce = true;
    for (const tag of [1, 2, 3]) commit(tag);
    await turns();
    commit(4);
    await turns();
    assert.deepEqual(told.splice(0), [{ type: "StoreCommitted", tag: 1, ok: false }]);
    assert.deepEqual(store.commits, []);
    shelf.told();
    commit(5);
    await turns();
    assert.deepEqual(told, [{ type: "StoreCommitted", tag: 5, ok: true }]);
    assert.deepEqual(store.commits, [1]);
  });

  test("fails what is under way when its module traps, and goes on from its store", async (t) => {
    const { instantiate } = WebAssembly;
    const instances: WebAssembly.Instance[] = [];
    t.after(() => Object.assign(WebAssembly, { instantiate }));
    Object.assign(WebAssembly, {
      instantiate: async (compiled: WebAssembly.Module, imports: WebAssembly.Imports) => {
        const instance = await instantiate(compiled, imports);
        instances.push(instance);
        return instance;
      },
    });
    const log: string[] = [];
    const replica = await open(memory(), { log: ({ text }) => log.push(text) });
    await replica.request(exchange("a capsule"));
    const damage = (): void => {
      const { exports } = instances.at(-1) as WebAssembly.Instance;
      new Uint8Array((exports as { memory: WebAssembly.Memory }).memory.buffer).fill(0xff);
    };
    damage();
    await assert.rejects(replica.request(exchange("reading")), {
      name: "StoreFailed",
      message: /started anew/,
    });
    assert.equal(codeOf(await replica.request(exchange("records and a signature"))), 0);
    assert.equal(instances.length, 2);
    assert.ok(log.length > 0);
    // What traps again and again is given up.
    for (const _ of [1, 2]) {
      damage();
      await assert.rejects(replica.request(exchange("reading")), { name: "StoreFailed" });
      await new Promise((resolve) => setImmediate(resolve));
    }
    await assert.rejects(replica.request(exchange("reading")), { name: "StoreFailed" });
    assert.equal(instances.length, 3);
    await replica.close();
  });

  test("refuses what is longer than a request may be, more than it has room for, and everything once it is closed", async () => {
    const replica = await open(memory());
    await assert.rejects(replica.request(new Uint8Array(MAX_REQUEST + 1)), { name: "TooLarge" });
    const largest = new Uint8Array(MAX_REQUEST);
    const many = Array.from({ length: 4 }, (_, index) => replica.request(largest, `1.1.${index}.1`));
    await assert.rejects(many.at(-1) as Promise<unknown>, { name: "TooManyRequests" });
    for (const answer of await Promise.all(many.slice(0, -1))) {
      assert.equal(codeOf(answer), codeNumber("BadMessage"));
    }
    const pending = replica.request(exchange("a capsule"));
    await Promise.all([assert.rejects(pending, { name: "Cancelled" }), replica.close()]);
    await assert.rejects(replica.request(exchange("a capsule")), { name: "Cancelled" });
  });
});

/** Status, headers and code of a refusal. */
async function answerOf(
  answer: Promise<Response>,
): Promise<{ status: number; headers: Headers; error: string }> {
  const response = await answer;
  const { error } = (await response.json()) as { error: string };
  return { status: response.status, headers: response.headers, error };
}

describe("over HTTP", () => {
  const post = (body: BodyInit, headers: Record<string, string> = {}): Request =>
    new Request("https://replica/", { method: "POST", body, headers, duplex: "half" } as RequestInit);

  test("what is no POST is told what is", async () => {
    const handler = replicaHandler(await open(memory()));
    const response = await handler(new Request("https://replica/"));
    assert.equal(response.status, 405);
    assert.equal(response.headers.get("allow"), "POST");
    assert.equal(response.headers.get("content-type"), "application/problem+json");
  });

  test("a body that is too long is refused before it is read whole", async () => {
    const handler = replicaHandler(await open(memory()));
    let pulled = 0;
    const endless = new ReadableStream({
      pull(controller) {
        pulled += 1 << 20;
        controller.enqueue(new Uint8Array(1 << 20));
      },
    });
    const response = await handler(post(endless));
    assert.equal(response.status, 413);
    assert.equal(((await response.json()) as { error: string }).error, "TooLarge");
    assert.ok(pulled <= MAX_REQUEST + (3 << 20), `${pulled} bytes were read`);
    let isCancelled = false;
    const large = new ReadableStream({
      cancel: () => {
        isCancelled = true;
      },
    });
    assert.equal((await handler(post(large, { "content-length": `${MAX_REQUEST + 1}` }))).status, 413);
    assert.ok(isCancelled, "nothing of it is waited for");
  });

  test("whoever accepts JSON is told in words what was refused and where", async () => {
    const handler = replicaHandler(await open(memory()));
    const response = await handler(
      post(exchange("a request that ends too early"), { accept: "application/json" }),
    );
    assert.equal(response.status, 400);
    const { error, at } = (await response.json()) as { error: CodeName; at: number };
    assert.equal(error, "BadMessage");
    assert.equal(typeof at, "number");
  });

  test("only a refusal that may pass says when to come again", async () => {
    for (const [code, status] of [
      ["TooManyRequests", 503],
      ["TooManyUnsigned", 503],
      ["Disconnected", 503],
      ["Cancelled", 503],
      ["OwnerRefused", 403],
      ["NoCapsule", 404],
      ["TooLarge", 413],
      ["StoreFailed", 500],
      ["StoreCorrupt", 500],
      ["StoreTooNew", 500],
      ["BadSignature", 400],
    ] as const) {
      const replica = { request: () => Promise.reject(new MeshError(code)) };
      const { headers, ...response } = await answerOf(replicaHandler(replica)(post("")));
      assert.deepEqual(response, { status, error: code });
      assert.equal(headers.get("retry-after"), status === 503 ? "1" : null, code);
    }
  });

  test("an export file of a foreign owner is forbidden", async () => {
    const from = await open(memory());
    assert.equal(codeOf(await from.request(exchange("a capsule"))), 0);
    const name = toBase32(unhex(conversation.capsule));
    const file = await replicaHandler(from)(new Request(`https://replica/${name}`));
    assert.equal(file.status, 200);
    const handler = replicaHandler(await open(memory(), { owners: ["22".repeat(32)] }));
    const refused = handler(post(await file.arrayBuffer(), { "content-type": CAPSULE_FILE_TYPE }));
    const { status, error } = await answerOf(refused);
    assert.deepEqual([status, error], [403, "OwnerRefused"]);
  });
});

test("the module verifies metadata and records without a replica", async () => {
  const capsules = await CapsuleModule.instantiate(module);
  const reader = new Reader(exchange("a capsule"));
  reader.take(1 + 32 + 16 + 4 + 1);
  const signed = reader.bytes().slice();
  const info = capsules.verifyMetadata(signed);
  assert.equal(toHex(info.name), conversation.capsule);
  assert.deepEqual([info.hash, info.sealed, info.description], ["blake3", false, "a test"]);
  const [record, name, proof] = await recordOf("another capsule", "its proof");
  capsules.verifyRecord(record.metadata, name, record.bytes, proof);
  for (const [index] of proof.entries()) {
    const changed = proof.slice();
    changed[index] = (changed[index] as number) ^ 1;
    assert.throws(() => capsules.verifyRecord(record.metadata, name, record.bytes, changed));
  }
  signed[signed.length - 1] = (signed.at(-1) as number) ^ 1;
  assert.throws(
    () => capsules.verifyMetadata(signed),
    (error: MeshError) => error.name === "BadSignature" && /, at \d+$/.test(error.message),
  );
});

/** What verifies the first record of a capsule: its metadata, the record, its name and its proof. */
async function recordOf(
  creation: string,
  proving: string,
): Promise<[{ metadata: Uint8Array; bytes: Uint8Array }, Uint8Array, Uint8Array]> {
  const HEAD = 1 + 32 + 16 + 4;
  const create = new Reader(exchange(creation));
  create.take(HEAD + 1);
  const metadata = create.bytes();
  const write = exchange("its records");
  // The first operation writes a header without backpointers and the body "record 0".
  const bytes = write.slice(HEAD + 1, HEAD + 1 + 52 + "record 0".length);
  const name = exchange(proving).slice(HEAD + 1, HEAD + 33);
  const answer = conversation.exchanges.find(({ what }) => what === proving);
  const response = new Reader(unhex(answer?.response ?? ""));
  response.take(1 + 2 + 4 + 2);
  return [{ metadata, bytes }, name, response.bytes().slice()];
}

test("a capsule is found in the mesh by its name", async () => {
  const { mesh, bootstrap } = await member();
  const replica = await open(memory());
  const served = await serveCapsules(mesh, replica, { service: "capsules", publish: { unowned: true } });
  await served.published;
  const client = await leaf(bootstrap);
  const send = async (name: string, body: Uint8Array<ArrayBuffer>): Promise<Uint8Array> => {
    const response = await client.fetch(`https://${name}.mesh/`, { method: "POST", body, unowned: true });
    assert.equal(response.status, 200, await response.clone().text());
    return new Uint8Array(await response.arrayBuffer());
  };
  assert.equal(codeOf(await send("capsules", exchange("a capsule"))), 0);
  const name = toBase32(unhex(conversation.capsule));
  assert.equal(codeOf(await send(name, exchange("records and a signature"))), 0);
  assert.equal(codeOf(await send(name, exchange("reading"))), codeOf(unhex("0000000000")));
  const other = await client.fetch(`https://${name}.mesh/`, {
    method: "POST",
    body: exchange("another capsule"),
    unowned: true,
  });
  assert.equal(other.status, 400);
  served.stop();
  await client.close();
  await mesh.close();
  await replica.close();
});
