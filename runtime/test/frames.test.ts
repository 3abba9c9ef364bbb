import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { MeshError } from "../src/codec/code.ts";
import type { Input } from "../src/codec/input.ts";
import { MeshStream } from "../src/driver/streams.ts";
import { platformTimers } from "../src/driver/timers.ts";
import type { Ended } from "../src/websocket/connection.ts";
import { FramedConnection } from "../src/websocket/framed.ts";
import {
  encodeClose,
  encodeFrame,
  FrameDecoder,
  type FrameEvent,
  MAX_MESSAGE,
} from "../src/websocket/frames.ts";

const WINDOW = 256 * 1024;
const PEER = new Uint8Array(32);
const NOTHING = new Uint8Array();

/** The two ends of a stream, each with a window of credit. */
function streams(credit = WINDOW): [MeshStream, MeshStream] {
  const ends: MeshStream[] = [];
  const end = (other: 0 | 1): MeshStream => {
    const push = (input: Input): void => {
      const to = ends[other];
      if (to === undefined) return;
      if (input.type === "StreamData") to.onData(input.data.slice());
      else if (input.type === "StreamEnd") to.onEnd();
      else if (input.type === "StreamCredit") to.onCredit(input.bytes);
    };
    const opened = { stream: 1, peer: PEER, service: "s", head: NOTHING };
    return new MeshStream(opened, platformTimers, push, () => undefined);
  };
  ends.push(end(1), end(0));
  for (const stream of ends) stream.onCredit(credit);
  return ends as [MeshStream, MeshStream];
}

/** A connection that tells what it hears, and the bytes of the other side. */
function connect(isCaller: boolean): {
  connection: FramedConnection;
  far: MeshStream;
  heard: (string | Uint8Array)[];
  ended: Promise<Ended>;
} {
  const [near, far] = streams();
  const connection = new FramedConnection(near, NOTHING, isCaller);
  const heard: (string | Uint8Array)[] = [];
  const ended = new Promise<Ended>((resolve) => {
    connection.listen({ message: (data) => heard.push(data), closing: () => undefined, ended: resolve });
  });
  return { connection, far, heard, ended };
}

async function readAll(stream: MeshStream, isMasked: boolean): Promise<FrameEvent[]> {
  const decoder = new FrameDecoder(isMasked);
  const events: FrameEvent[] = [];
  for (let chunk = await stream.read(); chunk !== undefined; chunk = await stream.read()) {
    events.push(...decoder.push(chunk));
  }
  return events;
}

const hex = (text: string): Uint8Array => new Uint8Array(Buffer.from(text.replaceAll(" ", ""), "hex"));
const join = (...parts: Uint8Array[]): Uint8Array => new Uint8Array(Buffer.concat(parts));
const decodeAll = (bytes: Uint8Array, isMasked: boolean): FrameEvent[] => [
  ...new FrameDecoder(isMasked).push(bytes),
];

/** A frame that begins with this byte. */
function frameOf(first: number, payload: Uint8Array, isMasked: boolean): Uint8Array {
  const frame = encodeFrame(2, payload, isMasked);
  frame[0] = first;
  return frame;
}

describe("frames", () => {
  test("of RFC 6455, 5.7 are read", () => {
    const hello = { type: "text", data: "Hello" };
    assert.deepEqual(decodeAll(hex("81 05 48656c6c6f"), false), [hello]);
    assert.deepEqual(decodeAll(hex("81 85 37fa213d 7f9f4d5158"), true), [hello]);
    assert.deepEqual(decodeAll(hex("01 03 48656c 80 02 6c6f"), false), [hello]);
    assert.deepEqual(decodeAll(hex("89 05 48656c6c6f"), false), [
      { type: "ping", data: new TextEncoder().encode("Hello") },
    ]);
    assert.deepEqual(decodeAll(hex("8a 85 37fa213d 7f9f4d5158"), true), []);
    for (const length of [256, 65_536]) {
      const header = length === 256 ? "82 7e 0100" : "82 7f 0000000000010000";
      const [event] = decodeAll(join(hex(header), new Uint8Array(length).fill(7)), false);
      assert.deepEqual(event, { type: "binary", data: new Uint8Array(length).fill(7) });
    }
  });

  test("are written as short as they can be, and masked anew each time by a caller", () => {
    assert.deepEqual(encodeFrame(1, new TextEncoder().encode("Hello"), false), hex("81 05 48656c6c6f"));
    for (const [length, header] of [
      [125, 2],
      [126, 4],
      [65_535, 4],
      [65_536, 10],
    ] as const) {
      const payload = new Uint8Array(length).map((_, index) => index);
      assert.equal(encodeFrame(2, payload, false).length, header + length);
      const masked = encodeFrame(2, payload, true);
      assert.equal(masked.length, header + 4 + length);
      assert.notDeepEqual(masked, encodeFrame(2, payload, true));
      assert.deepEqual(decodeAll(masked, true), [{ type: "binary", data: payload }]);
    }
  });

  test("come to the same wherever they are cut, with control frames between the parts of a message", () => {
    const frames = [
      [0x01, "e282ac"],
      [0x89, "70"],
      [0x00, ""],
      [0x80, "c3a9"],
      [0x82, "01".repeat(300)],
      [0x88, "03e8627965"],
      [0xff, "ff".repeat(20)],
    ] as const;
    const expected: FrameEvent[] = [
      { type: "ping", data: Uint8Array.of(0x70) },
      { type: "text", data: "\u20ac\u00e9" },
      { type: "binary", data: new Uint8Array(300).fill(1) },
      { type: "close", code: 1000, reason: "bye" },
    ];
    for (const isMasked of [false, true]) {
      const bytes = join(...frames.map(([first, payload]) => frameOf(first, hex(payload), isMasked)));
      for (let size = 1; size <= bytes.length; size++) {
        const decoder = new FrameDecoder(isMasked);
        const events: FrameEvent[] = [];
        for (let at = 0; at < bytes.length; at += size) {
          events.push(...decoder.push(bytes.subarray(at, at + size)));
        }
        assert.deepEqual(events, expected, `pieces of ${size}`);
      }
    }
  });
});

/** What a service gets that no caller may send, and the close code that says so. */
const HOSTILE: readonly [what: string, bytes: Uint8Array, code: number][] = [
  ["a frame that is not masked", hex("81 01 41"), 1002],
  ["the first reserved bit", hex("c1 80 00000000"), 1002],
  ["the second reserved bit", hex("a1 80 00000000"), 1002],
  ["the third reserved bit", hex("91 80 00000000"), 1002],
  ["opcode 3", hex("83 80 00000000"), 1002],
  ["opcode 7", hex("87 80 00000000"), 1002],
  ["opcode 11", hex("8b 80 00000000"), 1002],
  ["opcode 15", hex("8f 80 00000000"), 1002],
  ["a ping in parts", hex("09 80 00000000"), 1002],
  ["a ping of 126 bytes", join(hex("89 fe 007e 00000000"), new Uint8Array(126)), 1002],
  ["a close frame of 2^40 bytes", hex("88 ff 0000010000000000 00000000"), 1002],
  ["a continuation of nothing", hex("80 80 00000000"), 1002],
  ["a message within another", hex("01 80 00000000 81 80 00000000"), 1002],
  ["a length of two bytes that fits into one", hex("82 fe 007d 00000000"), 1002],
  ["a length of eight bytes that fits into two", hex("82 ff 000000000000ffff 00000000"), 1002],
  ["a length of 2^63", hex("82 ff 8000000000000000 00000000"), 1009],
  ["a message of one byte too many", hex("82 ff 0000000001000001 00000000"), 1009],
  ["parts of one byte too many", hex("02 81 00000000 00 80 ff 0000000001000000 00000000"), 1009],
  ["a text that is no UTF-8", hex("81 81 00000000 ff"), 1007],
  ["a text cut within a character", hex("81 82 00000000 e282"), 1007],
  ["a surrogate in UTF-8", hex("81 83 00000000 eda080"), 1007],
  ["a close frame of one byte", hex("88 81 00000000 03"), 1002],
  ["a reason that is no UTF-8", hex("88 83 00000000 03e8 ff"), 1007],
  ...[0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535].map((code): [string, Uint8Array, number] => {
    const payload = new Uint8Array(2);
    new DataView(payload.buffer).setUint16(0, code);
    return [`close code ${code}`, encodeFrame(8, payload, true), 1002];
  }),
];

describe("a stream", () => {
  test("joins the small pieces that wait, and gives each byte once", async () => {
    const [stream] = streams();
    const bytes = Uint8Array.from({ length: 100_000 }, (_, index) => (index * 7) % 251);
    const sizes = [1, 1, 3, 0, 2000, 1, 500, 1, 1];
    const read: Uint8Array[] = [];
    let reads = 0;
    for (let at = 0, turn = 0; at < bytes.length; turn++) {
      const size = sizes[turn % sizes.length] ?? 1;
      stream.onData(bytes.slice(at, at + size));
      at += size;
      if (turn % 100 < 99) continue;
      read.push((await stream.read()) ?? NOTHING);
      reads++;
    }
    stream.onEnd();
    for (let chunk = await stream.read(); chunk !== undefined; chunk = await stream.read()) {
      read.push(chunk);
      reads++;
    }
    assert.deepEqual(join(...read), bytes);
    assert.ok(reads < 60, `${reads} chunks`);
  });
});

describe("a service closes a connection", () => {
  for (const [what, bytes, code] of HOSTILE) {
    test(`after ${what} with ${code}`, async () => {
      const { far, heard, ended } = connect(false);
      await far.write(bytes);
      far.end();
      assert.deepEqual(await readAll(far, false), [{ type: "close", code, reason: "" }]);
      const { error, ...rest } = await ended;
      assert.deepEqual(rest, { code: 1006, reason: "" });
      assert.equal(error?.name, code === 1009 ? "TooLarge" : "BadFrame");
      assert.deepEqual(heard, []);
    });
  }

  test("as a caller does after a frame that is masked", async () => {
    const { far, ended } = connect(true);
    await far.write(encodeFrame(1, NOTHING, true));
    far.end();
    assert.deepEqual(await readAll(far, true), [{ type: "close", code: 1002, reason: "" }]);
    assert.match(String((await ended).error?.message), /a frame is masked/);
  });

  test("whatever random bytes come, and keeps no more than arrived", async () => {
    // Numerical Recipes' generator, so that a failure can be repeated.
    let seed = 7;
    const random = (): number => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return seed >>> 24;
    };
    for (let round = 0; round < 500; round++) {
      const { far, ended } = connect(false);
      await far.write(Uint8Array.from({ length: round }, random));
      far.end();
      const { code } = await ended;
      assert.ok(code === 1006 || (code >= 1000 && code < 5000), `round ${round}`);
    }
  });
});

describe("a connection", () => {
  const codes = [1000, 1001, 1003, 1008, 1011, 1014, 3000, 4999, 1005];
  for (const code of codes) {
    test(`closes with ${code} both ways`, async () => {
      const { far, ended } = connect(false);
      const reason = code === 1005 ? "" : "r\u00e9ason";
      await far.write(encodeClose(code, reason, true));
      far.end();
      assert.deepEqual(await readAll(far, false), [{ type: "close", code, reason }]);
      assert.deepEqual(await ended, { code, reason, error: undefined });
    });
  }

  test("answers pings, of those that came together the last", async () => {
    const { far, connection } = connect(false);
    const ping = (text: string): Uint8Array => encodeFrame(9, new TextEncoder().encode(text), true);
    await far.write(join(ping("one"), ping("two")));
    const first = await far.read();
    assert.deepEqual(first, hex("8a 03 6f6e65"));
    assert.deepEqual(await far.read(), hex("8a 03 74776f"));
    connection.close(1000, "");
    await far.write(ping("late"));
    assert.deepEqual(await far.read(), encodeClose(1000, "", false));
    assert.equal(await far.read(), undefined);
  });

  test("that ends without a close frame was not closed", async () => {
    const { far, ended } = connect(true);
    far.end();
    assert.equal(await far.read(), undefined);
    const { code, error } = await ended;
    assert.equal(code, 1006);
    assert.match(String(error?.message), /without a close frame/);
  });

  test("sends no faster than credit comes, and what waits is bounded", async () => {
    const [near, far] = streams(1000);
    const connection = new FramedConnection(near, NOTHING, false);
    const ended = new Promise<Ended>((resolve) => {
      connection.listen({ message: () => undefined, closing: () => undefined, ended: resolve });
    });
    const message = new Uint8Array(MAX_MESSAGE);
    connection.send(message);
    connection.send(message);
    assert.equal(connection.bufferedAmount, 2 * MAX_MESSAGE);
    assert.equal((await far.read())?.length, 1000);
    connection.send(new Uint8Array(1));
    const { code, error } = await ended;
    assert.equal(code, 1006);
    assert.equal(error?.name, "TooLarge");
    assert.equal(near.error?.name, "StreamRefused");
  });

  test("is broken off when too many empty messages wait", async () => {
    const { connection, ended } = connect(false);
    connection.send(new Uint8Array(WINDOW));
    for (let sent = 0; sent < 150_000; sent++) connection.send("");
    const { code, error } = await ended;
    assert.deepEqual([code, (error as MeshError).name], [1006, "TooLarge"]);
  });

  test("sends nothing after its close frame, and hears what is under way until the other side closes", async () => {
    const { connection, far, heard, ended } = connect(false);
    connection.close(1001, "leaving");
    connection.send("late");
    connection.close(4000, "later");
    await far.write(
      join(encodeFrame(1, new TextEncoder().encode("under way"), true), encodeClose(1001, "", true)),
    );
    far.end();
    assert.deepEqual(await readAll(far, false), [{ type: "close", code: 1001, reason: "leaving" }]);
    assert.deepEqual(await ended, { code: 1001, reason: "", error: undefined });
    assert.deepEqual(heard, ["under way"]);
  });

  test("gives up a peer that does not answer its close frame", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const { connection, ended } = connect(false);
    connection.close(1000, "");
    t.mock.timers.tick(10_000);
    const { code, error } = await ended;
    assert.deepEqual([code, error?.name], [1006, "TimedOut"]);
  });

  test("gives up a peer that goes on after its close frame", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const [near, far] = streams();
    const connection = new FramedConnection(near, NOTHING, false);
    const ended = new Promise((resolve) => {
      connection.listen({ message: () => undefined, closing: () => undefined, ended: resolve });
    });
    await far.write(encodeClose(1000, "", true));
    await ended;
    t.mock.timers.tick(10_000);
    assert.equal(near.error?.name, "StreamRefused");
  });
});
