import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, type TestContext, test } from "node:test";
import { Capsule } from "../src/capsule/client.ts";
import { CAPSULE_FILE_TYPE, replicaHandler } from "../src/capsule/http.ts";
import { Replica } from "../src/capsule/replica.ts";
import { MAX_REQUEST } from "../src/capsule/room.ts";
import { memory } from "../src/stores/memory.ts";
import { bytes, capsules, module } from "./capsule-support.ts";
import { turn, Upload, until } from "./support.ts";

const [A, B, C, D, E] = ["1.1.1.1", "1.1.2.1", "2606:4700::1", "11".repeat(32), "1.1.3.1"] as const;
/** A request that is none: it is refused after it was read whole. */
const NONE = Uint8Array.of(0);

let replica: Replica;
let handler: ReturnType<typeof replicaHandler>;

beforeEach(async () => {
  replica = await Replica.open({ storage: memory(), log: () => undefined }, module);
  handler = replicaHandler(replica);
});

afterEach(async () => {
  assert.equal(replica.room.size, 0, "a source is remembered that holds nothing");
  await replica.close();
});

/** Sends a request or file from a source. */
function post(
  from: string | undefined,
  body: Upload | Uint8Array<ArrayBuffer>,
  { length, type = "", signal }: { length?: number; type?: string; signal?: AbortSignal } = {},
): Promise<Response> {
  const headers = { "content-type": type, ...(length !== undefined && { "content-length": `${length}` }) };
  const init = { method: "POST", headers, body: body instanceof Upload ? body.stream : body, signal };
  const request = new Request("https://replica/", { ...init, duplex: "half" } as RequestInit);
  return handler(request, { remoteAddr: { hostname: from } });
}

/** Whether a promise has settled. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const open = Symbol("open");
  await turn();
  return (await Promise.race([promise, open])) !== open;
}

async function errorOf(response: Response): Promise<[number, string]> {
  return [response.status, ((await response.json()) as { error: string }).error];
}

describe("requests to a replica", () => {
  test("of a source that sends slowly keep only that source waiting", async () => {
    const slow = new Upload();
    const held = post(A, slow, { length: MAX_REQUEST });
    const next = new Upload();
    const waiting = post(A, next, { length: 1 });
    assert.equal(await isSettled(waiting), false);
    assert.equal(next.pulls, 0, "a request that waits is not read");
    for (const other of [B, C, D, undefined]) assert.equal((await post(other, NONE)).status, 200);
    slow.fail();
    assert.deepEqual(await errorOf(await held), [400, "BadMessage"]);
    next.send(NONE).end();
    assert.equal((await waiting).status, 200);
  });

  test("are of one source by their network, however it is written", async () => {
    for (const [from, same, others] of [
      [A, ["1.1.1.255", "::ffff:1.1.1.2", "::FFFF:101:103"], ["::ffff:101:203", "::1", "::101:103"]],
      ["::ffff:101:103", [A], [B, "::1"]],
      [C, ["2606:4700:0:ff:1::", "2606:4700::1%eth0"], ["2606:4700:0:100::1", "::ffff:2606:4700", "none"]],
    ] as const) {
      const slow = new Upload();
      const held = post(from, slow, { length: MAX_REQUEST });
      const waiting = same.map((address) => post(address, NONE, { length: 1 }));
      for (const other of others) assert.equal((await post(other, NONE)).status, 200, other);
      for (const answer of waiting) assert.equal(await isSettled(answer), false, from);
      slow.fail();
      await held;
      for (const answer of waiting) assert.equal((await answer).status, 200);
    }
  });

  test("reserve of their source's share what they announce, or the most", async () => {
    const [small, rest, third, unknown] = [new Upload(), new Upload(), new Upload(), new Upload()];
    const answers = [
      post(A, small, { length: 1000 }),
      post(A, rest, { length: MAX_REQUEST - 1000 }),
      post(A, third, { length: 1000 }),
      post(A, unknown),
    ];
    await turn();
    assert.deepEqual([small.pulls > 0, rest.pulls > 0, third.pulls, unknown.pulls], [true, true, 0, 0]);
    small.fail();
    await turn();
    assert.deepEqual([third.pulls > 0, unknown.pulls], [true, 0]);
    // Of one that is whole, what did not come is given back.
    for (const upload of [rest, third]) upload.send(NONE).end();
    await Promise.all(answers.slice(0, 3));
    assert.ok(unknown.pulls > 0);
    unknown.send(NONE).end();
    assert.equal((await answers[3])?.status, 200);
  });

  test("give back what did not come as soon as they are whole", async () => {
    const { promise, resolve } = Promise.withResolvers<Uint8Array<ArrayBuffer>>();
    handler = replicaHandler({ room: replica.room, request: () => promise });
    const carriedOut = post(A, NONE);
    const next = new Upload();
    const waiting = post(A, next, { length: MAX_REQUEST - NONE.length });
    await until("the next one is read", () => next.pulls > 0);
    next.send(NONE).end();
    resolve(new Uint8Array(7));
    for (const answer of [carriedOut, waiting]) assert.equal((await answer).status, 200);
  });

  test("hold of all memory what has arrived of them", async () => {
    const sources = [A, B, C];
    const uploads = sources.map(() => new Upload().send(new Uint8Array(MAX_REQUEST)));
    const announced = new Upload();
    const nothing = post(E, announced, { length: MAX_REQUEST });
    const held = uploads.map((upload, index) => post(sources[index], upload));
    await turn();
    const refused = new Upload().send(NONE);
    assert.deepEqual(await errorOf(await post(D, refused)), [503, "TooManyRequests"]);
    assert.ok(refused.isCancelled);
    announced.fail();
    await nothing;
    for (const upload of uploads) upload.end();
    for (const answer of held) assert.equal((await answer).status, 200);
    assert.equal((await post(D, NONE)).status, 200);
  });

  test("arrive within a minute, and wait no longer for their source's share", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const [slow, next] = [new Upload(), new Upload()];
    const [held, waiting] = [post(A, slow), post(A, next)];
    const direct = replica.request(NONE, A);
    const refused = assert.rejects(direct, { name: "TooManyRequests" });
    await turn();
    t.mock.timers.tick(59_999);
    for (const promise of [held, waiting, direct]) assert.equal(await isSettled(promise), false);
    t.mock.timers.tick(1);
    assert.deepEqual(await errorOf(await held), [408, "TimedOut"]);
    assert.deepEqual(await errorOf(await waiting), [503, "TooManyRequests"]);
    await refused;
    assert.ok(slow.isCancelled && next.isCancelled);
    assert.equal((await post(A, NONE)).status, 200);
  });

  test("wait 512 of a source at most, and give all back when they are aborted", async () => {
    const slow = new Upload();
    const held = post(A, slow);
    const client = new AbortController();
    const { signal } = client;
    const waiting = Array.from({ length: 512 }, () => post(A, new Upload(), { signal }));
    assert.deepEqual(await errorOf(await post(A, NONE)), [503, "TooManyRequests"]);
    assert.equal((await post(B, NONE)).status, 200);
    client.abort();
    for (const answer of waiting) assert.equal((await answer).status, 400);
    assert.equal(await isSettled(held), false);
    slow.send(NONE).end();
    assert.equal((await held).status, 200);
  });

  test("have no more bytes than they announce", async () => {
    const upload = new Upload().send(new Uint8Array(11));
    assert.deepEqual(await errorOf(await post(A, upload, { length: 10 })), [400, "BadMessage"]);
    assert.ok(upload.isCancelled);
  });

  test("that the application passes on wait for their source, too", async () => {
    const largest = new Uint8Array(MAX_REQUEST);
    const order: number[] = [];
    const many = [0, 1, 2, 3].map((index) => replica.request(largest, A).then(() => order.push(index)));
    assert.equal((await post(B, NONE)).status, 200);
    await Promise.all(many);
    assert.deepEqual(order, [0, 1, 2, 3]);
  });

  test("that wait are refused when the replica is closed", async () => {
    const slow = new Upload();
    const held = post(A, slow);
    const refused = assert.rejects(replica.request(NONE, A), { name: "Cancelled" });
    await Promise.all([refused, replica.close()]);
    slow.send(NONE).end();
    assert.deepEqual(await errorOf(await held), [503, "Cancelled"]);
  });
});

describe("files of a replica", () => {
  const type = CAPSULE_FILE_TYPE;

  /** Stores a capsule whose export file has several pieces. */
  async function capsule(): Promise<string> {
    const seed = "11".repeat(32);
    const metadata = capsules.signMetadata({ seed, description: "a file", sealed: false });
    const url = "https://replica/";
    const fetch: typeof globalThis.fetch = (input, init) => handler(new Request(input, init));
    const servers = [{ url, key: replica.key }];
    const owner = await Capsule.open({ metadata, servers, seed, storage: memory(), fetch }, module);
    await owner.create();
    await owner.append(Array.from({ length: 40 }, () => new Uint8Array(100_000)));
    await owner.append([bytes("the last")]);
    await owner.close();
    return owner.name;
  }

  const download = (from: string, name: string): Promise<Response> =>
    handler(new Request(`https://replica/${name}`), { caller: from });

  test("are four at a time, and two of one source", async () => {
    const name = await capsule();
    const uploads = [A, A, B].map((from) => {
      const upload = new Upload();
      return { upload, answer: post(from, upload, { type }) };
    });
    const made = await download(D, name);
    assert.equal(made.status, 200);
    assert.deepEqual(await errorOf(await post(A, NONE, { type })), [503, "TooManyRequests"]);
    assert.deepEqual(await errorOf(await download(D, name)), [503, "TooManyRequests"], "four in all");
    await made.body?.cancel();
    assert.deepEqual(
      await errorOf(await post(A, NONE, { type })),
      [503, "TooManyRequests"],
      "two of a source",
    );
    const whole = await download(D, name);
    const file = new Uint8Array(await whole.arrayBuffer());
    assert.equal((await post(C, file, { type })).status, 200);
    assert.deepEqual(await errorOf(await download(D, "a".repeat(52))), [404, "NoCapsule"]);
    for (const { upload } of uploads) upload.send(Uint8Array.of(1)).end();
    for (const { answer } of uploads) assert.equal((await answer).status, 400);
    assert.equal((await post(A, file, { type })).status, 200);
  });

  test("that bring nothing for half a minute are given up", async (t) => {
    const made = await download(A, await capsule());
    const file = new Uint8Array(await made.arrayBuffer());
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const upload = new Upload();
    const answer = post(A, upload, { type });
    await turn();
    t.mock.timers.tick(29_999);
    upload.send(file.subarray(0, 1000));
    await turn();
    t.mock.timers.tick(29_999);
    assert.equal(await isSettled(answer), false);
    t.mock.timers.tick(1);
    assert.deepEqual(await errorOf(await answer), [408, "TimedOut"]);
    assert.ok(upload.isCancelled);
  });

  test("of which nothing is read for a minute are given up", async (t: TestContext) => {
    const name = await capsule();
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const [unread, read] = [await download(A, name), await download(A, name)];
    assert.equal((await download(A, name)).status, 503);
    const reader = read.body?.getReader();
    await turn();
    t.mock.timers.tick(59_999);
    await reader?.read();
    await turn();
    t.mock.timers.tick(59_999);
    await assert.rejects(unread.arrayBuffer());
    const third = await download(A, name);
    assert.equal(third.status, 200);
    assert.equal((await reader?.read())?.done, false, "one that is read goes on");
    await Promise.all([reader?.cancel(), third.body?.cancel()]);
  });
});
