import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import type { Input } from "../src/codec/input.ts";
import { type Link, type Opened, type Path, type PathHost, PathTable } from "../src/driver/paths.ts";
import { timeoutTimer } from "../src/driver/timer.ts";
import { Activity } from "../src/transports/protocol.ts";
import { carry, type Socket } from "../src/transports/websocket.ts";
import { AlarmTimer } from "../src/workerd/alarm.ts";
import { ObjectClock } from "../src/workerd/object-clock.ts";
import { ObjectTimers } from "../src/workerd/object-timers.ts";
import { countTimeouts, mockClocks } from "./support.ts";

const NOW = 1_790_000_000_000;

function clock(t: TestContext): void {
  mockClocks(t, ["Date", "setTimeout", "setInterval"], NOW);
}

describe("the clock of a Durable Object", () => {
  test("stands still when that of its machine was set back by more than a minute", (t) => {
    clock(t);
    let machine_ms = NOW - 5_000;
    const sql = { exec: () => ({ one: () => ({ now: Math.floor(machine_ms / 1000) }) }) };
    const own = new ObjectClock(sql);
    assert.equal(own.standsStill, false);
    machine_ms = NOW - 64_000;
    assert.equal(own.standsStill, false);
    machine_ms = NOW - 3_600_000;
    assert.equal(own.standsStill, true);
    assert.equal(new ObjectClock(sql).standsStill, false, "an object that begins now goes by its own");
  });
});

describe("the wake-up of a Durable Object", () => {
  function make(): { timer: AlarmTimer; alarms: number[]; woken: () => number; activity: Activity } {
    const alarms: number[] = [];
    let woken = 0;
    const activity = new Activity(() => timer.arrange());
    const storage = { setAlarm: async (at_ms: number) => void alarms.push(at_ms - NOW) };
    const timer: AlarmTimer = new AlarmTimer(
      storage,
      activity,
      new ObjectTimers(activity),
      () => woken++,
      (error) => assert.fail(String(error)),
    );
    return { timer, alarms, woken: () => woken, activity };
  }

  test("ten seconds or more ahead is an alarm, even while work goes on", (t) => {
    clock(t);
    const { timer, alarms, activity } = make();
    activity.begin();
    timer.schedule(NOW + 10_000);
    assert.deepEqual(alarms, [10_000]);
  });

  test("sooner is a timer while work goes on, and no row is written", (t) => {
    clock(t);
    const { timer, alarms, woken, activity } = make();
    const done = activity.begin();
    timer.schedule(NOW + 9_999);
    t.mock.timers.tick(9_998);
    assert.equal(woken(), 0);
    t.mock.timers.tick(1);
    assert.equal(woken(), 1);
    timer.schedule(Number.POSITIVE_INFINITY);
    done();
    assert.deepEqual(alarms, []);
  });

  test("sooner becomes an alarm a second after the work ended, and no timer stays to pin the object", (t) => {
    clock(t);
    const { timer, alarms, woken, activity } = make();
    const done = activity.begin();
    timer.schedule(NOW + 2_000);
    done();
    t.mock.timers.tick(999);
    assert.deepEqual(alarms, []);
    t.mock.timers.tick(1);
    assert.deepEqual(alarms, [2_000]);
    t.mock.timers.tick(60_000);
    assert.equal(woken(), 0);
  });

  test("an answer within that second saves the alarm", (t) => {
    clock(t);
    const { timer, alarms, activity } = make();
    const done = activity.begin();
    timer.schedule(NOW + 3_000);
    done();
    t.mock.timers.tick(20);
    timer.schedule(NOW + 75_000);
    t.mock.timers.tick(60_000);
    assert.deepEqual(alarms, [75_000]);
  });

  test("less than a second ahead is a timer, even when nothing goes on", (t) => {
    clock(t);
    const { timer, alarms, woken } = make();
    timer.schedule(NOW + 1_000);
    t.mock.timers.tick(1_000);
    assert.equal(woken(), 1);
    assert.deepEqual(alarms, []);
  });

  test("an alarm is set only when it is earlier than the one that is set", (t) => {
    clock(t);
    const { timer, alarms } = make();
    timer.adopt(NOW + 30_000);
    timer.schedule(NOW + 60_000);
    timer.schedule(NOW + 40_000);
    assert.deepEqual(alarms, []);
    timer.schedule(NOW + 20_000);
    assert.deepEqual(alarms, [20_000]);
    timer.fired();
    timer.schedule(NOW + 60_000);
    assert.deepEqual(alarms, [20_000, 60_000]);
  });

  test("a retry counts beside what the core wants", (t) => {
    clock(t);
    const { timer, alarms } = make();
    timer.schedule(NOW + 60_000);
    timer.retry(NOW + 30_000);
    assert.deepEqual(alarms, [60_000, 30_000]);
    timer.fired();
    timer.schedule(NOW + 60_000);
    assert.deepEqual(alarms, [60_000, 30_000, 60_000]);
  });
});

describe("the timers of a Durable Object", () => {
  test("are called once each, in their order, at their time", (t) => {
    clock(t);
    const timers = new ObjectTimers(new Activity());
    const called: string[] = [];
    for (const delay_ms of [30, 10, 20, 10]) {
      timers.after(delay_ms, () => called.push(`${delay_ms} at ${Date.now() - NOW}`));
    }
    for (let passed_ms = 0; passed_ms < 100; passed_ms++) t.mock.timers.tick(1);
    assert.deepEqual(called, ["10 at 10", "10 at 10", "20 at 20", "30 at 30"]);
  });

  test("are not called once they were cancelled, by another one of the same moment either", (t) => {
    clock(t);
    const timers = new ObjectTimers(new Activity());
    const never = (): void => assert.fail("it was cancelled");
    timers.after(5, never).cancel();
    timers.after(10, () => other.cancel());
    const other = timers.after(10, never);
    t.mock.timers.tick(1_000);
  });

  test("one that throws does not keep back the next", (t) => {
    clock(t);
    t.mock.method(console, "error", () => undefined);
    const timers = new ObjectTimers(new Activity());
    let calls = 0;
    timers.after(10, () => {
      throw new Error("broken");
    });
    timers.after(10, () => calls++);
    timers.after(20, () => calls++);
    t.mock.timers.tick(20);
    assert.equal(calls, 2);
  });

  test("that are set and cancelled over and over clear no timeout, and set few", (t) => {
    clock(t);
    const counts = countTimeouts(t);
    const activity = new Activity();
    const timers = new ObjectTimers(activity);
    activity.begin();
    for (let step = 0; step < 10_000; step++) {
      timers.after(30_000, () => assert.fail("it was cancelled")).cancel();
      timers.after(10 + (step % 100), () => assert.fail("it was cancelled")).cancel();
      if (step % 100 === 99) t.mock.timers.tick(1);
    }
    assert.equal(counts.cleared, 0);
    assert.ok(counts.set < 100, `${counts.set} timeouts for 20,000 timers`);
  });

  test("pin an object for a second after its work ended, unless one is waited for", (t) => {
    clock(t);
    const counts = countTimeouts(t);
    const activity: Activity = new Activity(() => timers.rest());
    const timers = new ObjectTimers(activity);
    const done = activity.begin();
    timers.after(30_000, () => assert.fail("it was cancelled")).cancel();
    let calls = 0;
    timers.after(40_000, () => calls++);
    done();
    t.mock.timers.tick(999);
    assert.equal(counts.cleared, 0);
    t.mock.timers.tick(1);
    assert.equal(counts.cleared, 1);
    t.mock.timers.tick(39_000);
    assert.equal(calls, 1);
  });

  test("of an object that goes on are left alone", (t) => {
    clock(t);
    const counts = countTimeouts(t);
    const activity: Activity = new Activity(() => timers.rest());
    const timers = new ObjectTimers(activity);
    timers.after(30_000, () => undefined).cancel();
    activity.begin()();
    activity.begin();
    t.mock.timers.tick(20_000);
    assert.equal(counts.cleared, 0);
  });
});

test("the wake-up of a process fires once, at the time that was asked for last", (t) => {
  clock(t);
  let woken = 0;
  const timer = timeoutTimer(() => woken++);
  timer.schedule(NOW + 1_000);
  timer.schedule(NOW + 5_000);
  t.mock.timers.tick(4_999);
  assert.equal(woken, 0);
  t.mock.timers.tick(1);
  assert.equal(woken, 1);
  timer.schedule(NOW + 9_000);
  timer.cancel();
  timer.schedule(Number.POSITIVE_INFINITY);
  t.mock.timers.tick(60_000);
  assert.equal(woken, 1);
});

/** A socket whose other side is the test. */
class TestSocket implements Socket {
  readonly #events: EventTarget = new EventTarget();
  binaryType = "blob";
  bufferedAmount = 0;
  readonly readyState = 1;
  readonly sent: (string | Uint8Array)[] = [];
  readonly closes: (number | undefined)[] = [];

  send(data: string | Uint8Array): void {
    this.sent.push(data);
  }

  close(code?: number): void {
    // As in browsers.
    if (code !== undefined && code !== 1000 && code < 3000) throw new Error("InvalidAccessError");
    this.closes.push(code);
  }

  hear(data: unknown): void {
    this.#events.dispatchEvent(new MessageEvent("message", { data }));
  }

  happen(type: "close" | "error"): void {
    this.#events.dispatchEvent(new Event(type));
  }

  addEventListener(type: string, listener: (event: never) => void): void {
    this.#events.addEventListener(type, listener as EventListener);
  }
}

class Host implements PathHost {
  readonly inputs: Input[] = [];
  readonly table: PathTable = new PathTable((input) => this.inputs.push(input));
  link: Link | undefined;

  open(link: Link, opened: Opened): Path {
    this.link = link;
    return this.table.open(link, opened);
  }

  resume(): Path {
    throw new Error("not in this test");
  }

  dialFailed(): void {
    throw new Error("not in this test");
  }

  async settled(): Promise<void> {}
}

function carried(dial: number): { socket: TestSocket; host: Host } {
  const socket = new TestSocket();
  const host = new Host();
  carry(socket, host, { dial, kind: "Ordered", remote: "peer" });
  return { socket, host };
}

describe("a WebSocket", () => {
  test("is pinged when it is silent, and closed after two pings without an answer", (t) => {
    clock(t);
    const { socket, host } = carried(1);
    t.mock.timers.tick(20_000);
    assert.deepEqual(socket.sent, ["ping"]);
    socket.hear("pong");
    t.mock.timers.tick(20_000);
    t.mock.timers.tick(20_000);
    assert.deepEqual(socket.sent, ["ping", "ping", "ping"]);
    assert.equal(host.table.size, 1);
    t.mock.timers.tick(20_000);
    assert.equal(host.table.size, 0);
    assert.deepEqual(socket.closes, [undefined]);
    assert.deepEqual(host.inputs.at(-1), { type: "PathClosed", path: 1 });
  });

  test("that carries frames is not pinged", (t) => {
    clock(t);
    const { socket } = carried(1);
    for (let second = 0; second < 60; second += 10) {
      t.mock.timers.tick(10_000);
      socket.hear(new ArrayBuffer(1));
    }
    assert.deepEqual(socket.sent, []);
  });

  test("that was accepted is closed when the other side is silent for 80 seconds", (t) => {
    clock(t);
    const { socket, host } = carried(0);
    t.mock.timers.tick(60_000);
    assert.equal(host.table.size, 1);
    t.mock.timers.tick(20_000);
    assert.equal(host.table.size, 0);
    assert.deepEqual(socket.sent, []);
  });

  test("whose peer takes nothing is given up, and its memory with it", (t) => {
    clock(t);
    const { socket, host } = carried(0);
    socket.bufferedAmount = 17 * 1024 * 1024;
    assert.throws(() => host.link?.send(new Uint8Array(1)), /too slowly/);
  });

  test("closes once, whoever closes it", (t) => {
    clock(t);
    const { socket, host } = carried(0);
    socket.happen("error");
    socket.happen("close");
    assert.equal(host.inputs.filter(({ type }) => type === "PathClosed").length, 1);
    socket.hear(new ArrayBuffer(1));
    assert.equal(host.inputs.filter(({ type }) => type === "Received").length, 0);
  });
});
