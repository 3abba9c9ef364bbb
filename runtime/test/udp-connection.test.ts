import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Incoming } from "../src/transports/udp/incoming.ts";
import { Outgoing, type Piece } from "../src/transports/udp/outgoing.ts";
import { MAX_SEGMENT, MAX_WINDOW, type Packet, type Span } from "../src/transports/udp/packet.ts";
import { type Conditions, Network, pattern } from "./udp-network.ts";

const MIB = 1024 * 1024;

/** A packet that acknowledges. */
function acknowledgement(acknowledged: number, ranges: readonly Span[] = [], window = MAX_WINDOW): Packet {
  const bytes = new Uint8Array();
  return { kind: "packet", id: 1n, isEnd: false, acknowledged, window, ranges, offset: 0, bytes };
}

describe("bytes both ways", () => {
  const cases: [what: string, bytes: number, conditions: Conditions][] = [
    ["a network that loses nothing", 4 * MIB, { delay_ms: 20 }],
    ["no time on the way", 4 * MIB, { delay_ms: 0 }],
    ["reordering", 2 * MIB, { delay_ms: 20, jitter_ms: 30 }],
    ["duplication", 2 * MIB, { delay_ms: 20, jitter_ms: 5, duplicates: 0.3 }],
    ["a loss of 1 %", 4 * MIB, { delay_ms: 20, loss: 0.01 }],
    ["a loss of 10 %", 2 * MIB, { delay_ms: 20, jitter_ms: 10, loss: 0.1, duplicates: 0.05 }],
    ["a loss of 30 % of one way", MIB, { delay_ms: 20, loss: [0.3, 0] }],
    // Nine round trips in a row that fail end a connection, and every other one fails.
    ["a loss of 30 % of both ways", 30_000, { delay_ms: 20, jitter_ms: 10, loss: 0.3, duplicates: 0.05 }],
  ];
  for (const [what, size, conditions] of cases) {
    for (const seed of [1, 2, 3]) {
      test(`arrive exactly and in order with ${what}, seed ${seed}`, () => {
        const network = new Network(conditions, seed);
        const sides = [network.near, network.far];
        for (const side of sides) {
          side.toSend = size;
          side.ends = false;
        }
        network.runUntil("all is read", () => sides.every(({ read }) => read === size));
        for (const side of sides) side.ends = true;
        network.runUntil("both ends are known", () => sides.every(({ connection }) => connection.isRead));
      });
    }
  }
});

describe("a network that loses nothing", () => {
  test("carries each packet once, as fast as the window allows", () => {
    const network = new Network({ delay_ms: 20 });
    network.near.toSend = 8 * MIB;
    network.runUntil("it is over", () => network.isOver);
    assert.equal(network.far.read, 8 * MIB);
    assert.deepEqual(new Set(network.near.transmissions.values()), new Set([1]));
    // A window in each of 8 round trips of 40 ms, and some 7 before that for slow start.
    assert.ok(network.now > 8 * 40 && network.now < 18 * 40, `it took ${network.now} ms`);
    const { congestionWindow, roundTrip } = network.near.connection.outgoing;
    assert.equal(congestionWindow, MAX_WINDOW);
    assert.ok(roundTrip >= 40 && roundTrip < 42, `a round trip takes ${roundTrip} ms`);
    // Every second packet is acknowledged.
    const expected = network.near.datagrams / 2;
    assert.ok(
      Math.abs(network.far.datagrams - expected) < expected / 20,
      `${network.far.datagrams} datagrams`,
    );
  });

  test("has a first flight of ten packets, and one twice as large in the next round trip", () => {
    const network = new Network({ delay_ms: 50 });
    network.far.ends = false;
    network.near.toSend = MIB;
    network.runUntil("it has begun", () => true);
    assert.equal(network.near.datagrams, 10);
    network.runUntil("a round trip is over", () => network.now > 100);
    assert.equal(network.near.datagrams, 30);
  });

  test("lets one who has little to say not grow its congestion window", () => {
    const network = new Network({ delay_ms: 10 });
    network.near.ends = false;
    for (let turn = 1; turn <= 200; turn++) {
      network.near.toSend = 100;
      network.runUntil("it is read", () => network.far.read === 100 * turn);
    }
    assert.equal(network.near.connection.outgoing.congestionWindow, 10 * MAX_SEGMENT);
  });
});

describe("a loss", () => {
  test("in the middle is repaired without waiting for the retransmission time", () => {
    const network = new Network({ delay_ms: 20 });
    network.near.toSend = MIB;
    network.far.ends = false;
    network.runUntil("something is under way", () => network.far.read > 0);
    network.near.losesNext = 1;
    const before = network.now;
    const again = (): number[] => [...network.near.transmissions.values()].filter((times) => times > 1);
    network.runUntil("it is sent again", () => again().length > 0);
    assert.ok(network.now - before <= 80, `after ${network.now - before} ms`);
    network.runUntil("it is read", () => network.far.connection.isRead);
    assert.deepEqual(again(), [2]);
  });

  test("of the last packet is repaired after two round trips and 25 ms", () => {
    const network = new Network({ delay_ms: 20 });
    network.near.ends = false;
    network.near.toSend = 500;
    network.runUntil("a round trip is measured", () => network.near.connection.outgoing.roundTrip > 0);
    const before = network.now;
    network.near.losesNext = 1;
    network.near.toSend = 500;
    network.runUntil("it is read", () => network.far.read === 1000);
    // And the time of a way.
    assert.ok(network.now - before >= 125 && network.now - before < 180, `${network.now - before} ms`);
  });

  test("of the first packet is repaired after a second", () => {
    const network = new Network({ delay_ms: 20 });
    network.near.losesNext = 1;
    network.near.toSend = 500;
    network.runUntil("it is read", () => network.far.read === 500);
    assert.equal(network.now, 1020);
  });

  test("of the end is repaired", () => {
    const network = new Network({ delay_ms: 20 });
    network.near.ends = false;
    network.near.toSend = 500;
    network.runUntil(
      "it is acknowledged",
      () => network.near.connection.outgoing.underWay === 0 && network.far.read > 0,
    );
    network.near.losesNext = 1;
    network.near.ends = true;
    network.runUntil("the end is known", () => network.far.connection.isRead);
  });
});

describe("a reader that stops", () => {
  /** A side that has more to send than another one reads. */
  function stopped(): Network {
    const network = new Network({ delay_ms: 20 });
    network.near.toSend = 3 * MIB;
    network.far.ends = false;
    network.far.reads = false;
    return network;
  }

  test("closes the window and may do so for long", () => {
    const network = stopped();
    network.pass(300_000);
    assert.equal(network.near.connection.state, "open");
    assert.equal(network.near.connection.outgoing.underWay, 1);
    const asked = network.near.transmissions.get(MIB) ?? 0;
    assert.ok(asked > 140 && asked < 160, `asked ${asked} times, every 2 s at last`);
  });

  test("and goes on gets everything, without what it was asked counting as a loss", () => {
    const network = stopped();
    network.pass(60_000);
    const { congestionWindow } = network.near.connection.outgoing;
    const before = network.now;
    network.far.reads = true;
    network.runUntil("it is read", () => network.far.read === 3 * MIB);
    assert.ok(network.now - before < 300, `${network.now - before} ms`);
    assert.ok(network.near.connection.outgoing.congestionWindow >= congestionWindow);
  });

  test("is asked when it has said that it goes on and that was lost", () => {
    const network = stopped();
    network.pass(10_000);
    network.isCut = true;
    network.far.reads = true;
    network.pass(20);
    assert.equal(network.far.read, MIB);
    network.isCut = false;
    const before = network.now;
    network.runUntil("it is read", () => network.far.read === 3 * MIB);
    assert.ok(network.now - before < 9_000, `${network.now - before} ms`);
  });

  test("now and then gets everything over a network that loses", () => {
    for (const seed of [1, 2, 3]) {
      const network = new Network({ delay_ms: 10, jitter_ms: 5, loss: 0.02 }, seed);
      network.near.toSend = 4 * MIB;
      network.far.ends = false;
      for (let turn = 0; !network.far.connection.isRead; turn++) {
        network.far.reads = turn % 2 === 1;
        network.pass(turn % 2 === 1 ? 100 : 2_000);
        assert.ok(turn < 1_000, `seed ${seed}`);
      }
      assert.equal(network.far.read, 4 * MIB);
    }
  });
});

describe("a network that is cut", () => {
  for (const cut_ms of [3_000, 20_000]) {
    test(`for ${cut_ms} ms interrupts the connection`, () => {
      const network = new Network({ delay_ms: 20 });
      network.near.toSend = 4 * MIB;
      network.far.toSend = 4 * MIB;
      network.pass(200);
      network.isCut = true;
      network.pass(cut_ms);
      assert.ok(network.far.read < 4 * MIB);
      network.isCut = false;
      network.runUntil("it is over", () => network.isOver);
      assert.equal(network.near.read, 4 * MIB);
      assert.equal(network.far.read, 4 * MIB);
      assert.ok(network.now < 200 + cut_ms + 12_000, `it took ${network.now} ms`);
    });
  }

  test("for more than 30 s breaks it, and whoever is there afterwards is told", () => {
    const network = new Network({ delay_ms: 20 });
    const { near, far } = network;
    near.toSend = 4 * MIB;
    far.ends = false;
    network.pass(200);
    network.isCut = true;
    network.pass(29_000);
    assert.equal(near.connection.state, "open");
    // Its last word comes through.
    network.pass(700);
    network.isCut = false;
    near.losesNext = near.datagrams;
    network.runUntil("it is broken", () => near.connection.state === "broken");
    assert.ok(network.now > 30_000 && network.now < 30_300, `at ${network.now} ms`);
    assert.match(near.connection.reason, /acknowledges nothing/);
    near.losesNext = 0;
    far.toSend = 10;
    network.runUntil("the other hears of it", () => far.connection.state === "broken");
    assert.equal(near.connection.wakeAt, Number.POSITIVE_INFINITY);
    assert.equal(near.connection.nextDatagram(network.now), undefined);
  });

  test("does not break one on which nothing is under way", () => {
    const network = new Network({ delay_ms: 20 });
    network.near.ends = false;
    network.far.ends = false;
    network.near.toSend = 10;
    network.pass(1_000);
    network.isCut = true;
    network.pass(100_000);
    network.isCut = false;
    network.near.toSend = 10;
    network.runUntil("it is read", () => network.far.read === 20);
  });
});

describe("the end", () => {
  test("of both sides is delivered, and who has heard it lingers for 2 s", () => {
    const network = new Network({ delay_ms: 20 });
    network.near.toSend = 10;
    network.runUntil("it is over", () => network.isOver);
    assert.ok(network.near.connection.isRead && network.far.connection.isRead);
    const before = network.now;
    network.runUntil("both are gone", () =>
      [network.near, network.far].every(({ connection }) => connection.state === "gone"),
    );
    assert.ok(network.now - before >= 1_900 && network.now - before <= 2_100, `${network.now - before} ms`);
  });

  test("of a side whose peer does not end is over after 2 s", () => {
    const network = new Network({ delay_ms: 20 });
    network.near.toSend = 10;
    network.far.ends = false;
    network.runUntil("it is over", () => network.near.connection.state === "over");
    assert.ok(network.now >= 2_040 && network.now < 2_100, `${network.now} ms`);
    assert.equal(network.near.connection.hasArrived, false);
    assert.ok(network.far.connection.isRead);
  });

  test("whose acknowledgement was lost is acknowledged again", () => {
    const network = new Network({ delay_ms: 20 });
    network.near.toSend = 10;
    network.far.toSend = 10;
    network.far.losesNext = 2;
    network.runUntil("it is over", () => network.isOver);
  });

  test("of an empty stream is delivered as well, also behind a closed window", () => {
    const network = new Network({ delay_ms: 20 });
    network.runUntil("it is over", () => network.isOver);
    const full = new Network({ delay_ms: 20 });
    full.near.toSend = MIB;
    full.far.reads = false;
    full.runUntil("all is acknowledged", () => full.near.connection.outgoing.isDone);
    full.far.reads = true;
    full.runUntil("it is over", () => full.isOver);
    assert.equal(full.far.read, MIB);
  });

  test("by force tells the peer", () => {
    const network = new Network({ delay_ms: 20 });
    network.near.toSend = MIB;
    network.pass(60);
    network.near.connection.abort("broken off");
    network.runUntil("the other hears of it", () => network.far.connection.state === "broken");
    assert.match(network.far.connection.reason, /broke the connection off/);
  });

  test("that the network tells of counts when the peer is silent as well", () => {
    const network = new Network({ delay_ms: 20 });
    network.near.ends = false;
    network.near.toSend = 10;
    network.near.connection.refused();
    network.pass(1_000);
    assert.equal(network.near.connection.state, "open");
    network.isCut = true;
    network.near.toSend = 10;
    network.near.connection.refused();
    network.runUntil("it is broken", () => network.near.connection.state === "broken");
    // After what was sent again after two round trips was not acknowledged either.
    assert.ok(network.now > 1_200 && network.now < 1_400, `at ${network.now} ms`);
    assert.match(network.near.connection.reason, /nobody listens/);
  });
});

describe("the sending half", () => {
  /** A half with so many segments under way. */
  function sent(segments: number): { outgoing: Outgoing; pieces: Piece[] } {
    const outgoing = new Outgoing();
    outgoing.write(pattern(0, segments * MAX_SEGMENT, 1));
    return { outgoing, pieces: take(outgoing, 0) };
  }

  function take(outgoing: Outgoing, now: number): Piece[] {
    const pieces: Piece[] = [];
    for (let piece = outgoing.take(now); piece !== undefined; piece = outgoing.take(now)) pieces.push(piece);
    return pieces;
  }

  /** The span of segments, the last one not among them. */
  const span = (from: number, to: number): Span => ({ from: from * MAX_SEGMENT, to: to * MAX_SEGMENT });

  test("takes what was sent three packets before something that arrived for lost, and nothing later", () => {
    const { outgoing } = sent(8);
    outgoing.acknowledged(acknowledgement(0, [span(1, 3)]), 50);
    assert.deepEqual(take(outgoing, 50), []);
    outgoing.acknowledged(acknowledgement(0, [span(1, 4)]), 51);
    assert.deepEqual(
      take(outgoing, 51).map(({ offset }) => offset),
      [0],
    );
    // Three that arrived had let it grow to thirteen.
    const left = 13 * MAX_SEGMENT * 0.7;
    assert.equal(outgoing.congestionWindow, left);
    // Another of the same flight is no second reason.
    outgoing.acknowledged(acknowledgement(4 * MAX_SEGMENT, [span(7, 8)]), 90);
    assert.deepEqual(
      take(outgoing, 90).map(({ offset }) => offset),
      [4 * MAX_SEGMENT],
    );
    assert.ok(outgoing.congestionWindow >= left);
  });

  test("does not take what follows a repair for lost when the first transmission arrives after all", () => {
    const { outgoing } = sent(8);
    outgoing.acknowledged(acknowledgement(0, [span(1, 4)]), 50);
    assert.equal(take(outgoing, 50).length, 1);
    // Earlier than a round trip after the second transmission.
    outgoing.acknowledged(acknowledgement(4 * MAX_SEGMENT), 60);
    assert.deepEqual(take(outgoing, 60), []);
    assert.equal(outgoing.underWay, 4 * MAX_SEGMENT);
  });

  test("measures round trips by what was sent once", () => {
    const { outgoing } = sent(2);
    assert.equal(outgoing.wakeAt, 1_000);
    assert.equal(outgoing.wait(999), "nothing");
    assert.equal(outgoing.wait(1_000), "all is lost");
    assert.equal(take(outgoing, 1_000).length, 1);
    outgoing.acknowledged(acknowledgement(MAX_SEGMENT), 1_001);
    assert.equal(outgoing.roundTrip, 0);
    take(outgoing, 1_001);
    outgoing.write(pattern(0, 10, 1));
    take(outgoing, 1_001);
    outgoing.acknowledged(acknowledgement(2 * MAX_SEGMENT + 10), 1_041);
    assert.equal(outgoing.roundTrip, 40);
  });

  test("waits twice as long each time, up to 2 s, and sends one packet", () => {
    const { outgoing } = sent(10);
    const times: number[] = [];
    for (let now = 0; outgoing.wait(now) !== "the peer is gone"; now = outgoing.wakeAt) {
      const again = take(outgoing, now);
      if (now > 0) assert.equal(again.length, 1);
      times.push(now);
    }
    const seconds = times.map((time) => time / 1_000);
    assert.deepEqual(seconds, [0, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29]);
    assert.equal(outgoing.congestionWindow, MAX_SEGMENT);
  });

  test("sends the first again after two round trips and 25 ms, once, and learns from it what was lost", () => {
    const { outgoing } = sent(1);
    outgoing.acknowledged(acknowledgement(MAX_SEGMENT), 20);
    outgoing.write(pattern(0, 8 * MAX_SEGMENT, 1));
    assert.equal(take(outgoing, 20).length, 8);
    assert.equal(outgoing.wakeAt, 20 + 2 * 20 + 25);
    assert.equal(outgoing.wait(85), "nothing");
    const { congestionWindow } = outgoing;
    assert.deepEqual(
      take(outgoing, 85).map(({ offset }) => offset),
      [MAX_SEGMENT],
    );
    assert.equal(outgoing.wakeAt, 85 + 200);
    assert.equal(outgoing.congestionWindow, congestionWindow);
    // What was sent less than three packets before it may still come.
    outgoing.acknowledged(acknowledgement(2 * MAX_SEGMENT), 105);
    assert.deepEqual(
      take(outgoing, 105).map(({ offset }) => offset / MAX_SEGMENT),
      [2, 3, 4, 5, 6],
    );
    assert.ok(outgoing.congestionWindow < congestionWindow);
  });

  test("keeps what arrived in part", () => {
    const { outgoing } = sent(2);
    assert.ok(outgoing.acknowledged(acknowledgement(100), 20));
    assert.equal(outgoing.underWay, 2 * MAX_SEGMENT - 100);
    outgoing.wait(outgoing.wakeAt);
    assert.equal(take(outgoing, 2_000)[0]?.offset, 100);
  });

  test("does not believe what nobody can know", () => {
    const { outgoing } = sent(4);
    assert.equal(outgoing.acknowledged(acknowledgement(4 * MAX_SEGMENT + 1), 20), false);
    assert.equal(outgoing.acknowledged(acknowledgement(0, [span(1, 5)]), 20), false);
    assert.equal(outgoing.underWay, 4 * MAX_SEGMENT);
  });

  test("keeps little of ranges that are no segments", () => {
    const { outgoing } = sent(10);
    for (let at = 1; at < 10 * MAX_SEGMENT; at += 16) {
      const ranges = Array.from({ length: 8 }, (_, index) => ({
        from: at + 2 * index,
        to: at + 2 * index + 1,
      }));
      outgoing.acknowledged(
        acknowledgement(
          0,
          ranges.filter(({ to }) => to <= 10 * MAX_SEGMENT),
        ),
        20,
      );
    }
    assert.equal(outgoing.underWay, 10 * MAX_SEGMENT);
    outgoing.acknowledged(acknowledgement(10 * MAX_SEGMENT), 30);
    assert.equal(outgoing.underWay, 0);
    assert.equal(outgoing.held, 0);
  });
});

describe("the receiving half", () => {
  const some = pattern(0, 100, 1);

  test("acknowledges the second packet at once, and the first within 25 ms", () => {
    const incoming = new Incoming();
    incoming.received(0, some, false, 10);
    assert.equal(incoming.dueAt, 35);
    incoming.received(100, some, false, 20);
    assert.equal(incoming.dueAt, 20);
    incoming.told();
    assert.equal(incoming.dueAt, Number.POSITIVE_INFINITY);
    // One without bytes only acknowledges.
    incoming.received(200, new Uint8Array(), false, 30);
    assert.equal(incoming.dueAt, Number.POSITIVE_INFINITY);
  });

  test("acknowledges what leaves a gap, what fills one and what was there before at once", () => {
    const incoming = new Incoming();
    for (const [offset, ranges, acknowledged] of [
      [200, [{ from: 200, to: 300 }], 0],
      [0, [{ from: 200, to: 300 }], 100],
      [100, [], 300],
      [0, [], 300],
    ] as const) {
      incoming.received(offset, some, false, 10);
      assert.equal(incoming.dueAt, 10, `${offset}`);
      assert.equal(incoming.acknowledged, acknowledged);
      assert.deepEqual(
        incoming.ranges.map(({ from, to }) => ({ from, to })),
        ranges,
      );
      incoming.told();
    }
  });

  test("tells of the latest eight ranges, ascending", () => {
    const incoming = new Incoming();
    const offsets = Array.from({ length: 20 }, (_, index) => 200 + 1000 * ((index * 7) % 20));
    for (const offset of offsets) incoming.received(offset, some, false, 0);
    const latest = offsets.slice(-8).sort((left, right) => left - right);
    assert.deepEqual(
      incoming.ranges.map(({ from, to }) => [from, to]),
      latest.map((offset) => [offset, offset + 100]),
    );
  });

  test("puts pieces together however they were cut", () => {
    const whole = pattern(0, 5_000, 1);
    for (const [seed, step] of [
      [1, 7],
      [2, 1],
      [3, 333],
    ] as const) {
      const incoming = new Incoming();
      const pieces: [number, number][] = [];
      for (let at = 0; at < 5_000; at += step) pieces.push([at, Math.min(at + step * 2 + seed, 5_000)]);
      const mixed = pieces
        .map((piece, index) => ({ piece, place: Math.imul(index + seed, 0x9e37_79b1) >>> 0 }))
        .sort((left, right) => left.place - right.place);
      // Of many tiny gaps some are left out, so what is missing comes again.
      for (const round of [mixed, mixed.toReversed(), pieces.map((piece) => ({ piece }))]) {
        for (const { piece } of round) {
          incoming.received(piece[0], whole.subarray(...piece), piece[1] === 5_000, 0);
        }
      }
      assert.equal(incoming.acknowledged, 5_001, `seed ${seed}`);
      const parts: Uint8Array[] = [];
      for (let part = incoming.read(0); part !== undefined; part = incoming.read(0)) parts.push(part);
      assert.ok(Buffer.concat(parts).equals(whole), `seed ${seed}`);
      assert.ok(incoming.isRead);
    }
  });

  test("keeps to its window and takes the part of a packet that has room", () => {
    const incoming = new Incoming();
    incoming.received(MAX_WINDOW - 50, some, true, 0);
    assert.deepEqual(
      incoming.ranges.map(({ from, to }) => [from, to]),
      [[MAX_WINDOW - 50, MAX_WINDOW]],
    );
    incoming.received(MAX_WINDOW, some, false, 0);
    incoming.received(2 ** 50, some, true, 0);
    assert.equal(incoming.ranges.length, 1);
    for (let at = 0; at < MAX_WINDOW; at += 1_024)
      incoming.received(at, pattern(at, at + 1_024, 1), false, 0);
    assert.equal(incoming.acknowledged, MAX_WINDOW);
    assert.equal(incoming.window, 0);
    incoming.received(MAX_WINDOW, some, false, 0);
    assert.equal(incoming.acknowledged, MAX_WINDOW);
  });

  test("bounds the number of gaps, and takes what is next all the same", () => {
    const incoming = new Incoming();
    for (let at = 2; at < 100_000; at += 2) incoming.received(at, some.subarray(0, 1), false, 0);
    for (let at = 1; at < 4; at += 2) incoming.received(at, some.subarray(0, 1), false, 0);
    assert.equal(incoming.acknowledged, 0);
    incoming.received(0, some.subarray(0, 1), false, 0);
    assert.ok(incoming.acknowledged >= 3);
  });

  test("does not believe an end that contradicts what came", () => {
    const incoming = new Incoming();
    incoming.received(100, some, false, 0);
    incoming.received(50, some, true, 0);
    incoming.received(0, some, false, 0);
    assert.equal(incoming.acknowledged, 200);
    incoming.received(200, some, true, 0);
    for (const [offset, isEnd] of [
      [200, false],
      [201, true],
      [300, false],
      [0, true],
      [400, true],
    ] as const) {
      incoming.received(offset, some, isEnd, 0);
    }
    assert.equal(incoming.acknowledged, 301);
  });
});
