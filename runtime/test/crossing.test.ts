import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogRecord } from "../src/entries/node.ts";
import { member, until } from "./support.ts";

const UNOWNED = { unowned: true } as const;
/** Turns of microtasks between a service's bytes and its caller's abort: after some of them both come to the core in one step. */
const MOST_TURNS = 12;

test("bytes that cross the end of their stream are no warning", async () => {
  const records: LogRecord[] = [];
  const { mesh } = await member({ log: (record) => records.push(record), logLevel: "debug" });
  const feeds: ReadableStreamDefaultController<Uint8Array>[] = [];
  let ended = 0;
  const body = (): ReadableStream<Uint8Array<ArrayBuffer>> =>
    new ReadableStream({
      start: (controller) => {
        feeds.push(controller);
        controller.enqueue(new Uint8Array(9));
      },
      cancel: () => {
        ended++;
      },
    });
  try {
    await mesh.serve("feed", () => new Response(body()), UNOWNED);
    for (let turns = 0; turns < MOST_TURNS; turns++) {
      const abort = new AbortController();
      const response = await mesh.fetch("https://feed.mesh/", { ...UNOWNED, signal: abort.signal });
      await response.body?.getReader().read();
      feeds.at(-1)?.enqueue(new Uint8Array(9));
      for (let turn = 0; turn < turns; turn++) await undefined;
      abort.abort();
      await until("the service hears of it", () => ended > turns);
    }
    const levels = records.filter(({ code }) => code === "UnknownStream").map(({ level }) => level);
    assert.notEqual(levels.length, 0, "none has crossed");
    assert.deepEqual([...new Set(levels)], ["debug"]);
  } finally {
    await mesh.close();
  }
});
