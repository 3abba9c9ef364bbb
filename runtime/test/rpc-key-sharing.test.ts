import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { describe, it, type TestContext } from "node:test";
import { toHex } from "../src/codec/hex.ts";
import type { LogRecord } from "../src/driver/log.ts";
import type { Timers } from "../src/driver/timers.ts";
import { MeshError, type NodeMesh, type Provider } from "../src/entries/node.ts";
import {
  createRpcServer,
  KEYS_PATH,
  type RpcServer,
  type SharedTicketKeys,
  shareTicketKeys,
  type TicketKeySharing,
} from "../src/entries/rpc-node.ts";
import {
  beginChain,
  decodeOffer,
  encodeOffer,
  isPreferred,
  type KeyOffer,
  keysOf,
  rotationsOf,
} from "../src/rpc/key-chain.ts";
import { TicketKeys } from "../src/rpc/keys.ts";
import { startClient, ticketMesh } from "./rpc-support.ts";
import { leaf, member, OWNER_SEED, until } from "./support.ts";

const SERVICE = "vault";
const DAY_MS = 24 * 3_600_000;
const SECRET = new Uint8Array(32).fill(5);

/** Timers that go off when the test says so. */
class ManualTimers implements Timers {
  readonly #due: Map<() => void, number> = new Map();

  after(delay_ms: number, act: () => void): { cancel: () => void; unref: () => void } {
    this.#due.set(act, delay_ms);
    return { cancel: () => void this.#due.delete(act), unref: () => undefined };
  }

  /** Lets those go off that last no longer. */
  fire(longest_ms: number): void {
    for (const [act, delay_ms] of [...this.#due]) {
      if (delay_ms > longest_ms) continue;
      this.#due.delete(act);
      act();
    }
  }
}

interface Replica {
  readonly mesh: NodeMesh;
  readonly keys: SharedTicketKeys;
  readonly timers: ManualTimers;
  readonly server: RpcServer;
  readonly address: string;
}

/** Replicas of a service that have told each other nothing yet. */
async function replicas(
  t: TestContext,
  count: number,
  periods_s: readonly number[] = [],
): Promise<{ owner: NodeMesh; all: Replica[] }> {
  const { mesh: owner, bootstrap } = await member({ ownerSeed: OWNER_SEED });
  t.after(() => owner.close());
  const all: Replica[] = [];
  for (let at = 0; at < count; at++) {
    const mesh = await leaf(bootstrap, { owner: owner.ownerKey });
    const timers = new ManualTimers();
    const shared: TicketKeySharing["mesh"] = {
      id: mesh.id,
      fetch: mesh.fetch.bind(mesh),
      find: mesh.find.bind(mesh),
      timers,
    };
    const rotation_s = periods_s[at];
    const keys = shareTicketKeys({ mesh: shared, service: SERVICE, rotation_s, log: () => undefined });
    const server = createRpcServer({
      service: SERVICE,
      network: "test",
      ticketKey: keys,
      idempotent: true,
      stateless: true,
      handler: ({ payload }) => payload,
    });
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    const grant = owner.grant(SERVICE, mesh.id, { expires: new Date(Date.now() + DAY_MS) });
    await mesh.serve(SERVICE, server.tickets(address), { grant });
    all.push({ mesh, keys, timers, server, address });
    t.after(async () => {
      keys.close();
      server.close();
      await mesh.close();
    });
  }
  return { owner, all };
}

/** Whether a ticket of one replica opens at another one. */
async function opens(t: TestContext, from: Replica, at: Replica): Promise<boolean> {
  let asked = 0;
  const mesh = ticketMesh(() => {
    asked++;
    return from.server.issueTicket("ab".repeat(32), from.address);
  });
  const client = startClient(t, mesh);
  const options = { idempotent: true, server: at.address, timeout_ms: 2000 };
  await client.call(SERVICE, new Uint8Array(4), options).catch(() => undefined);
  client.close();
  return asked === 1;
}

function offerOf(changes: Partial<KeyOffer> = {}): KeyOffer {
  const chain = { series: 0, born_ms: 1_000_000, id: new Uint8Array(16).fill(1), period_s: 60 };
  return { ...chain, rotations: 3, secret: SECRET, ...changes };
}

/** A mesh in which another replica tells an offer. */
function told(offer: () => Uint8Array, timers: Timers): TicketKeySharing["mesh"] {
  const start = (body: ReadableStreamDefaultController<Uint8Array>): void => {
    body.enqueue(offer());
    body.close();
  };
  return {
    id: "",
    fetch: async () => new Response(new ReadableStream<Uint8Array>({ start }) as BodyInit),
    find: async () => [{ peer: "another" }] as Provider[],
    timers,
  };
}

describe("replicas that share ticket keys", () => {
  it("open each other's tickets once they have asked", async (t) => {
    const { all } = await replicas(t, 3);
    const [first, second, third] = all as [Replica, Replica, Replica];
    assert.equal(await opens(t, first, second), false);
    for (const { timers } of [second, third]) timers.fire(1000);
    await until("the second has the keys", () => opens(t, first, second));
    await until("the third has the keys", () => opens(t, second, third));
    assert.equal(await opens(t, third, first), true);
  });

  it("get a renewed key, and open nothing of the ones before", async (t) => {
    const { all } = await replicas(t, 2);
    const [first, second] = all as [Replica, Replica];
    second.timers.fire(1000);
    await until("the second has the keys", () => opens(t, first, second));
    await second.keys.renew();
    assert.equal(await opens(t, first, second), false);
    first.timers.fire(1000);
    await until("the first has the renewed key", () => opens(t, first, second));
  });

  it("renew with the period that they are given, whatever the others had", async (t) => {
    const { all } = await replicas(t, 2, [7200, 3600]);
    const [, second] = all as [Replica, Replica];
    second.timers.fire(1000);
    await until("the second has the keys", () => second.keys.rotation_s === 7200);
    await second.keys.renew();
    assert.equal(second.keys.rotation_s, 3600);
  });

  it("tell no keys that are erased", async (t) => {
    const { mesh: owner, bootstrap } = await member({ ownerSeed: OWNER_SEED });
    const asked = await leaf(bootstrap, { owner: owner.ownerKey });
    t.after(() => Promise.all([owner.close(), asked.close()]));
    const [found, looked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const shared: TicketKeySharing["mesh"] = {
      id: asked.id,
      fetch: asked.fetch.bind(asked),
      find: async () => {
        looked.resolve();
        await found.promise;
        return [{ peer: owner.id }] as Provider[];
      },
      timers: new ManualTimers(),
    };
    const keys = shareTicketKeys({ mesh: shared, service: SERVICE, log: () => undefined });
    const grant = owner.grant(SERVICE, asked.id, { expires: new Date(Date.now() + DAY_MS) });
    await asked.serve(SERVICE, (request, context) => keys.fetch(request, context), { grant });
    const ask = (): Promise<Response> =>
      owner.fetch(`https://${SERVICE}.mesh${KEYS_PATH}`, { method: "POST" });
    const answer = ask();
    await looked.promise;
    keys.close();
    found.resolve();
    assert.equal((await answer).status, 503);
    assert.equal((await ask()).status, 503);
    assert.throws(() => keys.bytes, { name: "Cancelled" });
    await assert.rejects(keys.renew(), { name: "Cancelled" });
  });

  it("leave no copy of a secret that they are told", async (t) => {
    const offer = encodeOffer(offerOf({ born_ms: Date.now() - 1000, rotations: 0, period_s: 7200 }));
    const timers = new ManualTimers();
    const keys = shareTicketKeys({ mesh: told(() => offer, timers), service: SERVICE, log: () => undefined });
    t.after(() => keys.close());
    timers.fire(1000);
    await until("the secret is used", () => keys.rotation_s === 7200);
    assert.equal(toHex(keys.bytes.subarray(0, 32)), toHex(SECRET));
    assert.ok(offer.every((byte) => byte === 0));
  });

  it("tell nobody else", async (t) => {
    const { owner, all } = await replicas(t, 1);
    const [first] = all as [Replica];
    const url = `https://${SERVICE}.mesh${KEYS_PATH}`;
    assert.equal((await owner.fetch(url, { method: "POST" })).status, 403);
    assert.equal((await owner.fetch(url)).status, 405);
    const unproven = await first.server.tickets(first.address)(new Request(url, { method: "POST" }));
    assert.equal(unproven.status, 403);
    await until(
      "the ring knows it",
      async () => (await first.mesh.fetch(url, { method: "POST" })).status === 200,
    );
  });

  it("rotate by themselves alone", async (t) => {
    const { all } = await replicas(t, 1);
    const [{ server }] = all as [Replica];
    await assert.rejects(server.rotateTicketKeys(), { name: "BadConfig" });
    await assert.rejects(server.setTicketKey(SECRET), { name: "BadConfig" });
  });

  it("are told when what they want does not go together", () => {
    const mesh = { id: "", fetch: fetch, find: async () => [], timers: new ManualTimers() };
    for (const rotation_s of [0, 1.5, 31 * 86_400]) {
      assert.throws(() => shareTicketKeys({ mesh, service: SERVICE, rotation_s }), { name: "BadConfig" });
    }
    const keys = shareTicketKeys({ mesh, service: SERVICE, rotation_s: 60 });
    const options = { service: SERVICE, network: "test", ticketKey: keys, handler: () => SECRET };
    assert.throws(() => createRpcServer({ ...options, ticketLife_s: 61 }), { message: /rotation_s/ });
    keys.close();
  });
});

describe("a replica whose clock leaps", () => {
  const HOUR_MS = 3_600_000;

  /** A replica that another one tells its keys, as those of its time are, and a clock to set. */
  function start(t: TestContext): {
    keys: SharedTicketKeys;
    timers: ManualTimers;
    leap: (by_ms: number) => void;
    derived: () => number;
    records: LogRecord[];
  } {
    const real = Date.now;
    let ahead_ms = 0;
    t.mock.method(Date, "now", () => real() + ahead_ms);
    const derive = t.mock.method(crypto.subtle, "sign", crypto.subtle.sign.bind(crypto.subtle));
    const born_ms = real() - HOUR_MS / 2;
    const timers = new ManualTimers();
    const offer = (): Uint8Array => encodeOffer(offerOf({ born_ms, rotations: 0, period_s: 3600 }));
    const records: LogRecord[] = [];
    const log = (record: LogRecord): void => void records.push(record);
    const keys = shareTicketKeys({ mesh: told(offer, timers), service: SERVICE, log });
    t.after(() => keys.close());
    const leap = (by_ms: number): void => {
      ahead_ms = by_ms;
      timers.fire(HOUR_MS);
    };
    return { keys, timers, leap, derived: () => derive.mock.callCount(), records };
  }

  const hasSecret = (keys: SharedTicketKeys): boolean => toHex(keys.bytes).startsWith(toHex(SECRET));

  it("far ahead draws another secret, makes no rotations, and is told the others' once it is right", async (t) => {
    const { keys, timers, leap, derived, records } = start(t);
    timers.fire(1000);
    await until("it has the others' secret", () => hasSecret(keys));
    const before = derived();
    leap(10 * 365 * 24 * HOUR_MS);
    await until("it has another secret", () => !hasSecret(keys));
    assert.ok(derived() - before < 4, `${derived() - before} derivations`);
    assert.ok(records.some(({ level, text }) => level === "warn" && text.includes("the clock has leapt")));
    leap(0);
    await until("it has the others' secret", () => {
      timers.fire(60_000);
      return hasSecret(keys);
    });
  });

  it("some rotations ahead is told the others' secret again once it is right", async (t) => {
    const { keys, timers, leap } = start(t);
    timers.fire(1000);
    await until("it has the others' secret", () => hasSecret(keys));
    leap(5 * HOUR_MS);
    await until("it has rotated", () => !hasSecret(keys));
    leap(0);
    await until("it has the others' secret", () => {
      timers.fire(60_000);
      return hasSecret(keys);
    });
  });

  it("from 1970 makes no rotations of half a century", async (t) => {
    const real = Date.now;
    let ahead_ms = -real();
    t.mock.method(Date, "now", () => real() + ahead_ms);
    const derive = t.mock.method(crypto.subtle, "sign", crypto.subtle.sign.bind(crypto.subtle));
    const timers = new ManualTimers();
    const mesh = { id: "", fetch, find: async () => [], timers };
    const keys = shareTicketKeys({ mesh, service: SERVICE, rotation_s: 1, log: () => undefined });
    t.after(() => keys.close());
    await keys.derive();
    const before = toHex(keys.bytes.subarray(0, 32));
    ahead_ms = 0;
    timers.fire(1000);
    await until("it has another secret", () => toHex(keys.bytes.subarray(0, 32)) !== before);
    assert.ok(derive.mock.callCount() < 4);
  });
});

describe("ticket secrets", () => {
  it("follow from each other by HMAC, and keep one of those before", async () => {
    const next = (secret: Uint8Array): Uint8Array =>
      createHmac("sha256", secret).update("selfsame/1 rpc next ticket secret").digest();
    const chain: Uint8Array[] = [SECRET];
    for (let at = 0; at < 5; at++) chain.push(next(chain[at] as Uint8Array));
    const keys = new TicketKeys(SECRET);
    assert.equal(toHex(keys.bytes), toHex(SECRET));
    await keys.derive();
    assert.deepEqual(toHex(keys.bytes), [0, 1].map((at) => toHex(chain[at] as Uint8Array)).join(""));
    for (let rotations = 1; rotations < 4; rotations++) {
      await keys.rotate();
      const known = [rotations, rotations + 1, rotations - 1].map((at) => toHex(chain[at] as Uint8Array));
      assert.equal(toHex(keys.bytes), known.join(""));
    }
    await Promise.all([keys.rotate(), keys.rotate()]);
    assert.ok(toHex(keys.bytes).startsWith(toHex(chain[5] as Uint8Array)));
    keys.erase();
    assert.match(toHex(keys.bytes), /^0*$/);
  });
});

describe("ticket secrets that change while others are derived", () => {
  const next = (secret: Uint8Array): Uint8Array =>
    createHmac("sha256", secret).update("selfsame/1 rpc next ticket secret").digest();
  const OTHER = new Uint8Array(32).fill(6);

  it("are rotated before they are replaced, and not after", async () => {
    for (const isDerived of [false, true]) {
      const keys = new TicketKeys(SECRET);
      if (isDerived) await keys.derive();
      const rotated = keys.rotate();
      keys.replace(OTHER);
      await Promise.all([rotated, keys.derive()]);
      assert.equal(toHex(keys.bytes), toHex(OTHER) + toHex(next(OTHER)));
      await keys.rotate();
      assert.ok(toHex(keys.bytes).startsWith(toHex(next(OTHER))));
    }
  });

  it("are rotated after they are replaced, if that is asked for after", async () => {
    const keys = new TicketKeys(SECRET);
    keys.replace(OTHER);
    await Promise.all([keys.derive(), keys.rotate()]);
    assert.ok(toHex(keys.bytes).startsWith(toHex(next(OTHER))));
    assert.ok(keys.hasPrevious);
  });

  it("leave no copies when they are erased", async (t) => {
    const copies: Uint8Array[] = [];
    const { importKey, sign } = crypto.subtle;
    t.mock.method(crypto.subtle, "importKey", (...given: Parameters<typeof importKey>) => {
      copies.push(given[1] as unknown as Uint8Array);
      return importKey.apply(crypto.subtle, given);
    });
    t.mock.method(crypto.subtle, "sign", async (...given: Parameters<typeof sign>) => {
      const signed = await sign.apply(crypto.subtle, given);
      copies.push(new Uint8Array(signed));
      return signed;
    });
    const keys = new TicketKeys(SECRET);
    await Promise.all([keys.derive(), keys.derive(), keys.rotate(), keys.rotate()]);
    const rotated = keys.rotate();
    keys.erase();
    await rotated;
    assert.ok(copies.length > 8);
    assert.ok(copies.every((copy) => copy.every((byte) => byte === 0)));
    assert.ok(
      SECRET.every((byte) => byte === 5),
      "what its owner has",
    );
  });
});

describe("chains of ticket keys", () => {
  it("are preferred by renewals, then by age, then by id", () => {
    const inOrder = [
      offerOf({ series: 2, born_ms: 3 }),
      offerOf({ series: 1, born_ms: 1 }),
      offerOf({ series: 1, born_ms: 2, id: new Uint8Array(16) }),
      offerOf({ series: 1, born_ms: 2 }),
    ];
    inOrder.forEach((one, at) => {
      inOrder.forEach((other, place) => {
        assert.equal(isPreferred(one, other), at < place);
      });
    });
  });

  it("rotate by the clock", () => {
    const chain = beginChain(0, 60, 1_000);
    assert.deepEqual(
      [0, 1_000, 60_999, 61_000, 181_000].map((now_ms) => rotationsOf(chain, now_ms)),
      [0, 0, 0, 1, 3],
    );
  });

  it("lead an offer to the keys of the time, unless its clock is another", async () => {
    const offer = offerOf();
    const at = (rotations: number): number => offer.born_ms + rotations * 60_000;
    for (const [now, rotations] of [
      [3, 3],
      [5, 5],
      [2, 3],
      [19, 19],
    ] as const) {
      const { keys, rotations: reached } = await keysOf(offer, at(now));
      assert.equal(reached, rotations);
      assert.equal(keys.hasPrevious, rotations > 3);
    }
    for (const now of [1, 20, 1_000_000]) {
      await assert.rejects(keysOf(offer, at(now)), { name: "WrongClock" });
    }
  });

  it("leave room for one that is renewed", async () => {
    const now_ms = 1_000_000 + 3 * 60_000;
    await keysOf(offerOf({ series: now_ms / 1000 }), now_ms);
    for (const series of [now_ms / 1000 + 1, Number.MAX_SAFE_INTEGER])
      await assert.rejects(keysOf(offerOf({ series }), now_ms), { name: "WrongClock" });
  });

  it("of the future are refused", async () => {
    const now_ms = 10_000_000;
    await keysOf(offerOf({ born_ms: now_ms + 60_000, rotations: 0 }), now_ms);
    for (const born_ms of [now_ms + 60_001, Number.MAX_SAFE_INTEGER])
      await assert.rejects(keysOf(offerOf({ born_ms, rotations: 0 }), now_ms), { name: "WrongClock" });
  });

  it("are read from an offer, and from nothing else", () => {
    const bytes = encodeOffer(offerOf());
    assert.deepEqual(decodeOffer(bytes), offerOf());
    const refuses = (wrong: Uint8Array): void =>
      assert.throws(() => decodeOffer(wrong), { constructor: MeshError, name: "BadMessage" });
    for (let length = 0; length < bytes.length; length++) refuses(bytes.subarray(0, length));
    refuses(Uint8Array.of(...bytes, 0));
    refuses(encodeOffer(offerOf({ period_s: 0 })));
    refuses(encodeOffer(offerOf({ period_s: 31 * 86_400 })));
    refuses(encodeOffer(offerOf({ id: new Uint8Array(15) })));
    refuses(encodeOffer(offerOf({ secret: new Uint8Array(31) })));
    const otherVersion = bytes.slice();
    otherVersion[1] = 2;
    refuses(otherVersion);
  });
});
