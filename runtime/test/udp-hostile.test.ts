import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Shares } from "../src/transports/shares.ts";
import { Connection } from "../src/transports/udp/connection.ts";
import { Cookies } from "../src/transports/udp/cookie.ts";
import {
  type Datagram,
  MAX_DATAGRAM,
  MAX_SEGMENT,
  MAX_WINDOW,
  type Packet,
  parseDatagram,
  type Span,
  writeDatagram,
} from "../src/transports/udp/packet.ts";
import { Network, pattern, random } from "./udp-network.ts";

const COOKIE = pattern(0, 16, 3);

function packet(parts: Partial<Packet> = {}): Packet {
  const bytes = new Uint8Array();
  const usual = { isEnd: false, acknowledged: 0, window: MAX_WINDOW, ranges: [], offset: 0, bytes };
  return { kind: "packet", id: 1n, ...usual, ...parts };
}

/** One of every kind, as they are sent. */
const SOUND: readonly Datagram[] = [
  { kind: "open", id: 1n, cookie: COOKIE },
  { kind: "retry", id: 2n ** 64n - 1n, cookie: COOKIE },
  { kind: "accept", id: 0x0102_0304_0506_0708n, accepting: 9n },
  { kind: "reset", id: 5n },
  packet({ isEnd: true, acknowledged: 1_000, ranges: [{ from: 1_001, to: 1_002 }], offset: 2 ** 40 + 3 }),
];

const plain = (datagram: Datagram | undefined): unknown =>
  JSON.parse(JSON.stringify(datagram, (_, value) => (typeof value === "bigint" ? `${value}` : value)));

describe("datagrams", () => {
  test("come back as they were", () => {
    const ranges = Array.from({ length: 8 }, (_, index) => ({ from: 6 + 2 * index, to: 7 + 2 * index }));
    const full = packet({ acknowledged: 5, ranges, bytes: pattern(0, MAX_SEGMENT, 1) });
    assert.equal(writeDatagram(full).length, MAX_DATAGRAM);
    for (const datagram of [...SOUND, full]) {
      assert.deepEqual(plain(parseDatagram(writeDatagram(datagram))), plain(datagram));
    }
  });

  test("are as specified, byte for byte", () => {
    const ranges = [{ from: 0x0102, to: 0x0103 }];
    const bytes = Uint8Array.of(0xaa, 0xbb);
    const parts = {
      isEnd: true,
      acknowledged: 0x0100,
      window: 0x0001_0203,
      ranges,
      offset: 2 ** 32 + 1,
      bytes,
    };
    const id = 0x0807_0605_0403_0201n;
    assert.equal(
      Buffer.from(writeDatagram(packet({ id, ...parts }))).toString("hex"),
      ["53", "0102030405060708", "01", "0001000000000000", "03020100", "01"].join("") +
        ["02000000", "03000000", "0100000001000000", "aabb"].join(""),
    );
    assert.equal(
      Buffer.from(writeDatagram({ kind: "accept", id, accepting: 1n })).toString("hex"),
      "5201020304050607080100000000000000",
    );
    const open = Buffer.from(writeDatagram({ kind: "open", id, cookie: COOKIE }));
    assert.equal(open.length, 1200);
    assert.ok(open.subarray(9, 25).equals(COOKIE) && open.subarray(25).every((byte) => byte === 0));
  });

  test("that are cut short or too long are none", () => {
    for (const datagram of SOUND) {
      const bytes = writeDatagram(datagram);
      for (let length = 0; length < bytes.length; length++) {
        assert.equal(
          parseDatagram(bytes.subarray(0, length)),
          undefined,
          `${datagram.kind}, ${length} bytes`,
        );
      }
      assert.equal(parseDatagram(Buffer.concat([bytes, new Uint8Array(MAX_DATAGRAM)])), undefined);
      const oneMore = parseDatagram(Buffer.concat([bytes, new Uint8Array(1)]));
      assert.equal(oneMore === undefined, datagram.kind !== "packet");
    }
  });

  test("with anything that is not defined are none", () => {
    const sound = writeDatagram(packet({ acknowledged: 1_000, ranges: [{ from: 1_001, to: 1_002 }] }));
    const with_ = (at: number, byte: number): Datagram | undefined => {
      const bytes = sound.slice();
      bytes[at] = byte;
      return parseDatagram(bytes);
    };
    assert.ok(with_(1, 0));
    for (const [at, byte, what] of [
      [0, 0, "a kind of STUN"],
      [0, 4, "a kind"],
      [0, 0x4f, "a kind"],
      [0, 0x55, "a kind"],
      [9, 2, "a flag"],
      [9, 0x80, "a flag"],
      [17, 1, "an acknowledgement that no number holds"],
      [22, 9, "too many ranges"],
      [22, 255, "too many ranges"],
      [23, 0, "a range that touches what came before"],
      [27, 1, "an empty range"],
      [38, 1, "an offset that no number holds"],
    ] as const) {
      assert.equal(with_(at, byte), undefined, what);
    }
    for (const ranges of [
      [span(1_005, 1_006), span(1_001, 1_002)],
      [span(1_001, 1_004), span(1_003, 1_005)],
      [span(1_001, 1_004), span(1_004, 1_005)],
      [span(1_004, 1_002)],
    ]) {
      assert.equal(parseDatagram(writeDatagram(packet({ acknowledged: 1_000, ranges }))), undefined);
    }
  });

  test("of noise are none or something, and never an error", () => {
    const next = random(7);
    for (let turn = 0; turn < 20_000; turn++) {
      const bytes = Uint8Array.from({ length: Math.floor(next() * 130) }, () => Math.floor(next() * 256));
      if (bytes.length > 0) bytes[0] = 0x4f + Math.floor(next() * 7);
      parseDatagram(bytes);
    }
  });
});

function span(from: number, to: number): Span {
  return { from, to };
}

describe("a connection", () => {
  test("is not disturbed by what its peer cannot have sent", () => {
    const network = new Network({ delay_ms: 20, jitter_ms: 10, loss: 0.02 }, 5);
    const { near, far } = network;
    near.toSend = 500_000;
    far.toSend = 500_000;
    for (const side of [near, far]) side.ends = false;
    const size = MAX_SEGMENT;
    for (let turn = 0; near.read < 500_000 || far.read < 500_000; turn++) {
      for (const { connection } of [near, far]) {
        for (const parts of [
          { acknowledged: 2 ** 40 },
          { ranges: [span(2 ** 30, 2 ** 31)] },
          { acknowledged: 600_000, offset: 100, bytes: new Uint8Array(size) },
          { offset: 2 ** 45, bytes: new Uint8Array(size) },
          { offset: 500_000 + MAX_WINDOW, bytes: new Uint8Array(size), isEnd: true },
          { offset: 0, isEnd: near.read > 0 && far.read > 0 },
        ]) {
          connection.received(packet(parts), network.now);
        }
      }
      network.pass(10);
      assert.ok(turn < 10_000);
    }
    for (const side of [near, far]) side.ends = true;
    network.runUntil("it is over", () => network.isOver);
  });

  test("does not fail or grow whatever comes with its number", () => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const next = random(seed);
      const below = (limit: number): number => Math.floor(next() * limit);
      const connection = new Connection({ own: 1n, peer: 2n });
      connection.write(pattern(0, 100_000, 1));
      let now = 0;
      for (let turn = 0; turn < 5_000; turn++) {
        const acknowledged = below(next() < 0.5 ? 200_000 : 2_000);
        const first = acknowledged + 1 + below(5_000);
        const ranges = next() < 0.5 ? [] : [span(first, first + 1 + below(3_000))];
        const offset = below(next() < 0.9 ? MAX_WINDOW * 1.2 : 2 ** 40);
        const bytes = new Uint8Array(below(MAX_SEGMENT));
        const isEnd = next() < 0.01;
        const window = below(2 ** 32);
        const some = writeDatagram(packet({ acknowledged, ranges, offset, bytes, isEnd, window }));
        const parsed = parseDatagram(some);
        if (parsed?.kind === "packet") connection.received(parsed, now);
        if (next() < 0.3) connection.read(now);
        now += below(100);
        connection.wait(now);
        for (let count = 0; connection.nextDatagram(now) !== undefined; count++) assert.ok(count < 1_000);
        assert.ok(connection.outgoing.held <= 100_000 && connection.outgoing.underWay >= 0, `seed ${seed}`);
        assert.ok(connection.outgoing.underWay <= 100_000, `seed ${seed}`);
      }
    }
  });

  test("is broken off by a reset with the number of either side, and by no other", () => {
    for (const id of [1n, 2n]) {
      const connection = new Connection({ own: 1n, peer: 2n });
      connection.resetBy(3n);
      assert.equal(connection.state, "open");
      connection.resetBy(id);
      assert.equal(connection.state, "broken");
      // Nothing is said to someone who knows nothing.
      assert.equal(connection.nextDatagram(0), undefined);
    }
  });
});

describe("a cookie", () => {
  test("is for one address, one id and a while", () => {
    const cookies = new Cookies();
    const from = { address: "192.0.2.1", port: 5 };
    const now = 1_000_000;
    const cookie = cookies.make(from, 1n, now);
    assert.equal(cookie.length, 16);
    for (const later_ms of [0, 9_999, 10_000]) assert.ok(cookies.proves(cookie, from, 1n, now + later_ms));
    assert.ok(!cookies.proves(cookie, from, 1n, now + 20_000), "one that is too old");
    assert.ok(!cookies.proves(cookie, from, 2n, now), "one of another id");
    assert.ok(!cookies.proves(cookie, { ...from, port: 6 }, 1n, now), "one of another port");
    assert.ok(!cookies.proves(cookie, { ...from, address: "192.0.2.2" }, 1n, now), "one of another address");
    assert.ok(!cookies.proves(new Uint8Array(16), from, 1n, now), "none");
    assert.ok(!new Cookies().proves(cookie, from, 1n, now), "one of another listener");
  });
});

describe("a source", () => {
  test("gets its share, and others get theirs", () => {
    const shares = new Shares(2, 7);
    const first = shares.take("1.1.1.1");
    assert.ok(first !== undefined && shares.take("::ffff:1.1.1.1") !== undefined);
    assert.equal(shares.take("1.1.1.1"), undefined);
    assert.equal(shares.take("1.1.1.2"), undefined, "of the same network");
    assert.ok(shares.take("1.1.2.1") !== undefined);
    first.release();
    first.release();
    assert.ok(shares.take("1.1.1.1") !== undefined);
    assert.equal(shares.take("1.1.1.1"), undefined);
  });

  test("holds amounts that grow up to its share", () => {
    const shares = new Shares(10, 100);
    const share = shares.take("1.1.1.1", 6);
    assert.ok(share);
    assert.ok(share.grow(3));
    assert.ok(!share.grow(2), "more than its share");
    assert.equal(shares.take("1.1.1.1", 2), undefined);
    assert.ok(shares.take("1.1.1.1", 1) !== undefined && shares.take("1.1.2.1", 10) !== undefined);
    share.release();
    assert.ok(shares.take("1.1.1.1", 9) !== undefined);
  });

  test("is a network in IPv6, and forgotten when it holds nothing", () => {
    const shares = new Shares(1, 8);
    const given = shares.take("2606:4700:1:2::1");
    assert.equal(shares.take("2606:4700:1:2:ffff::"), undefined);
    assert.equal(shares.take("2606:4700:1:ff::1"), undefined);
    assert.ok(shares.take("2606:4700:1:102::1") !== undefined);
    assert.ok(shares.take("2606:4700::1") !== undefined);
    assert.equal(shares.take("2606:4700:0:0:5::"), undefined);
    assert.equal(shares.size, 3);
    given?.release();
    assert.equal(shares.size, 2);
  });

  test("that holds much leaves room to newcomers", () => {
    const shares = new Shares(128, 512);
    const network = (index: number): string => `1.1.${index}.1`;
    const large = [0, 1, 2, 3].map((index) => shares.take(network(index), 128));
    assert.equal(large.filter((share) => share !== undefined).length, 3);
    assert.ok(shares.take(network(3), 64) !== undefined);
    assert.equal(shares.take(network(3)), undefined, "what is left is reserved");
    for (let index = 10; index < 74; index++) assert.ok(shares.take(network(index)) !== undefined);
    assert.equal(shares.take(network(80)), undefined, "nobody gets more than there is");
    large[0]?.release();
    assert.ok(shares.take(network(80), 64) !== undefined);
  });

  test("leaves room to newcomers together with any number of others", () => {
    const shares = new Shares(1024, 4096);
    // As many as one network has sessions, each of which takes what it can.
    const strangers = Array.from({ length: 512 }, (_, source) => `${source}`);
    while (strangers.filter((source) => shares.takeAs(source) !== undefined).length > 0);
    for (const newcomer of ["a", "b", "c"]) assert.ok(shares.takeAs(newcomer, 2) !== undefined, newcomer);
  });

  test("inside is counted among all only: it may be a proxy", () => {
    const shares = new Shares(0, 6);
    for (const ip of ["127.0.0.1", "::1", "10.0.0.1", "fd00::1", "fe80::1%eth0", "::ffff:10.0.0.1"]) {
      assert.ok(shares.take(ip) !== undefined, ip);
    }
    assert.equal(shares.size, 0);
    assert.equal(shares.take("127.0.0.1"), undefined);
  });
});
