import assert from "node:assert/strict";
import { Connection } from "../src/transports/udp/connection.ts";
import {
  MAX_DATAGRAM,
  MAX_SEGMENT,
  type Packet,
  parseDatagram,
  writeDatagram,
} from "../src/transports/udp/packet.ts";

/** What a network does to datagrams, from 0 for never to 1 for always. */
export interface Conditions {
  /** How long each way takes, in milliseconds. */
  readonly delay_ms: number;
  /** How much longer it may take: what is sent later may arrive earlier. */
  readonly jitter_ms?: number;
  /** How many are lost; of both ways, or of the way to the far side and the way back. */
  readonly loss?: number | readonly [there: number, back: number];
  /** How many arrive twice. */
  readonly duplicates?: number;
}

/** Numbers from 0 to below 1 that are the same for the same seed (Mulberry32). */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b_79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Bytes that tell where in which stream they are. */
export function pattern(from: number, to: number, stream: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(to - from);
  for (let at = from; at < to; at++) bytes[at - from] = Math.imul(at + stream, 0x9e37_79b1) >>> 24;
  return bytes;
}

/** One side of a connection in a simulated network, and the application on it. */
export class Side {
  readonly connection: Connection;
  readonly number: number;
  /** How many bytes the application still has to send. */
  toSend = 0;
  /** Whether it ends its stream behind them. */
  ends = true;
  /** Whether it reads. */
  reads = true;
  /** How many bytes it read. */
  read = 0;
  /** Transmissions of each first offset. */
  readonly transmissions: Map<number, number> = new Map();
  /** So many of the datagrams that it sends next are lost. */
  losesNext = 0;
  /** Datagrams that it sent. */
  datagrams = 0;
  #written = 0;
  #hasEnded = false;
  /** Up to where the other side has told of room. */
  #room = 10 * MAX_SEGMENT;

  constructor(number: number) {
    this.number = number;
    this.connection = new Connection({ own: BigInt(number), peer: BigInt(3 - number) });
  }

  /** Lets the application write and read what it can. */
  act(now: number, size: () => number): void {
    while (this.toSend > 0 && this.connection.outgoing.held < 1_500_000) {
      const length = Math.min(this.toSend, size());
      this.connection.write(pattern(this.#written, this.#written + length, this.number));
      this.#written += length;
      this.toSend -= length;
    }
    if (this.toSend === 0 && this.ends && !this.#hasEnded) {
      this.#hasEnded = true;
      this.connection.end();
    }
    for (let next = this.#next(now); next !== undefined; next = this.#next(now)) {
      const right = pattern(this.read, this.read + next.length, 3 - this.number);
      assert.ok(Buffer.compare(next, right) === 0, `the bytes from ${this.read} on are others`);
      this.read += next.length;
    }
  }

  /** Checks a packet that this side sends. */
  sends(packet: Packet): void {
    assert.equal(packet.id, BigInt(3 - this.number));
    assert.ok(packet.ranges.length <= 8);
    this.datagrams++;
    const size = packet.bytes.length + (packet.isEnd ? 1 : 0);
    if (size === 0) return;
    this.transmissions.set(packet.offset, (this.transmissions.get(packet.offset) ?? 0) + 1);
    const isProbe = size === 1 && packet.offset === this.#room;
    assert.ok(isProbe || packet.offset + size <= this.#room, `${packet.offset} + ${size} has no room`);
  }

  /** Hands in a packet that arrived. */
  hears(packet: Packet, now: number): void {
    this.#room = Math.max(this.#room, packet.acknowledged + packet.window);
    this.connection.received(packet, now);
  }

  #next(now: number): Uint8Array | undefined {
    return this.reads ? this.connection.read(now) : undefined;
  }
}

interface Arrival {
  readonly at: number;
  readonly order: number;
  readonly to: Side;
  readonly datagram: Uint8Array;
}

/** Two sides, a network between them and a clock that stands still while anything happens. */
export class Network {
  readonly near: Side = new Side(1);
  readonly far: Side = new Side(2);
  /** Milliseconds since the beginning. */
  now = 0;
  /** What may be changed while it runs. */
  conditions: Conditions;
  /** Whether nothing arrives. */
  isCut = false;
  readonly #seed: number;
  readonly #random: () => number;
  readonly #arrivals: Arrival[] = [];
  #order = 0;

  constructor(conditions: Conditions, seed = 1) {
    this.conditions = conditions;
    this.#seed = seed;
    this.#random = random(seed);
  }

  /** Runs until a condition holds; fails with the seed when it does not by then. */
  runUntil(what: string, condition: () => boolean, limit_ms = 1_000_000): void {
    try {
      this.#pump(this.near);
      this.#pump(this.far);
      while (!condition()) {
        assert.ok(this.#step(), `nothing happens any more before ${what}`);
        assert.ok(this.now <= limit_ms, `${limit_ms} ms passed before ${what}`);
      }
    } catch (error) {
      throw new Error(`seed ${this.#seed}, at ${this.now} ms: ${(error as Error).message}`, { cause: error });
    }
  }

  /** Lets so much time pass. */
  pass(time_ms: number): void {
    const until = this.now + time_ms;
    this.runUntil("the time is over", () => this.#nextAt() > until);
    this.now = until;
  }

  /** Whether everything was said and acknowledged. */
  get isOver(): boolean {
    return [this.near, this.far].every(({ connection: { state } }) => state === "over" || state === "gone");
  }

  #nextAt(): number {
    const { near, far } = this;
    return Math.min(near.connection.wakeAt, far.connection.wakeAt, this.#arrivals[0]?.at ?? Infinity);
  }

  #step(): boolean {
    const next = this.#nextAt();
    if (next === Number.POSITIVE_INFINITY) return false;
    this.now = Math.max(this.now, next);
    const first = this.#arrivals[0];
    if (first !== undefined && first.at <= this.now) {
      this.#arrivals.shift();
      this.#arrive(first);
    } else {
      for (const side of [this.near, this.far]) {
        if (side.connection.wakeAt > this.now) continue;
        side.connection.wait(this.now);
        this.#pump(side);
        assert.ok(side.connection.wakeAt > this.now, "what was due stays due");
      }
    }
    return true;
  }

  #arrive({ to, datagram }: Arrival): void {
    const parsed = parseDatagram(datagram);
    assert.ok(parsed !== undefined, "what is sent can be read");
    const { state } = to.connection;
    if (parsed.kind !== "packet") to.connection.resetBy(parsed.id);
    else if (state === "open" || state === "over") to.hears(parsed, this.now);
    // Whoever has no such connection says so.
    else this.#carry(this.#other(to), writeDatagram({ kind: "reset", id: parsed.id }));
    this.#pump(to);
  }

  #pump(side: Side): void {
    side.act(this.now, () => 1 + Math.floor(this.#random() * 70_000));
    const { connection } = side;
    for (let next = connection.nextDatagram(this.now); next !== undefined; ) {
      assert.ok(next.length <= MAX_DATAGRAM);
      const parsed = parseDatagram(next);
      if (parsed?.kind === "packet") side.sends(parsed);
      this.#carry(this.#other(side), next);
      next = connection.nextDatagram(this.now);
    }
  }

  #other(side: Side): Side {
    return side === this.near ? this.far : this.near;
  }

  #carry(to: Side, datagram: Uint8Array): void {
    const { delay_ms, jitter_ms = 0, loss = 0, duplicates = 0 } = this.conditions;
    const lost = typeof loss === "number" ? loss : loss[to === this.far ? 0 : 1];
    const from = this.#other(to);
    if (from.losesNext > 0) {
      from.losesNext--;
      return;
    }
    const copies = this.#random() < duplicates ? 2 : 1;
    for (let copy = 0; copy < copies; copy++) {
      const at = this.now + delay_ms + this.#random() * jitter_ms;
      if (this.isCut || this.#random() < lost) continue;
      const arrival = { at, order: this.#order++, to, datagram };
      // From the back, where nearly all belong.
      let place = this.#arrivals.length;
      while (place > 0 && (this.#arrivals[place - 1]?.at ?? 0) > at) place--;
      this.#arrivals.splice(place, 0, arrival);
    }
  }
}
