import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { type Handler, type NodeMesh, upgradeWebSocket } from "../src/entries/node.ts";
import { leaf, member, type TestNode, until } from "./support.ts";

const UNOWNED = { unowned: true } as const;
/** Longer than any test: what ends before has not waited for it. */
const LONG_MS = 1_000_000;

describe("a node that drains", () => {
  /** A member that stays, one that is to be closed, and a caller of the ring. */
  async function ring(t: TestContext): Promise<{ stays: TestNode; goes: TestNode; caller: NodeMesh }> {
    const quiet = { log: () => undefined };
    const stays = await member(quiet);
    const goes = await member({ bootstrap: stays.bootstrap, ...quiet });
    const caller = await leaf(stays.bootstrap, quiet);
    t.after(async () => {
      for (const mesh of [caller, goes.mesh, stays.mesh]) await mesh.close();
    });
    return { stays, goes, caller };
  }

  /** A handler whose answers end when the test says so. */
  function held(): { handler: Handler; reached: Promise<void>; release: () => void } {
    const reached = Promise.withResolvers<void>();
    const free = Promise.withResolvers<void>();
    const handler: Handler = async (request) => {
      reached.resolve();
      await free.promise;
      return new Response(`done ${await request.text()}`);
    };
    return { handler, reached: reached.promise, release: free.resolve };
  }

  for (const how of ["close", "leave", "dispose"] as const) {
    test(`finishes what it has, and sends the rest to others: ${how}`, async (t) => {
      const { stays, goes, caller } = await ring(t);
      const { handler, reached, release } = held();
      await goes.mesh.serve("work", handler, UNOWNED);
      const under = caller.fetch("https://work.mesh/", { ...UNOWNED, method: "POST", body: "a body" });
      await reached;
      await stays.mesh.serve("work", () => new Response("elsewhere"), UNOWNED);
      const ended =
        how === "close"
          ? goes.mesh.close({ drain: LONG_MS })
          : how === "leave"
            ? goes.mesh.leave({ drain: LONG_MS })
            : goes.mesh[Symbol.asyncDispose]();
      const late = { ...UNOWNED, peer: goes.mesh.id };
      await until("it takes no more", async () => {
        const refused = await caller.fetch("https://work.mesh/", late);
        return refused.status === 503 && refused.headers.get("retry-after") === "1";
      });
      for (let call = 0; call < 20; call++) {
        assert.equal(await (await caller.fetch("https://work.mesh/", UNOWNED)).text(), "elsewhere");
      }
      await until("its name is withdrawn", async () => {
        const providers = await caller.find("work", UNOWNED);
        return providers.every(({ peer }) => peer === stays.mesh.id);
      });
      release();
      assert.equal(await (await under).text(), "done a body");
      await ended;
    });
  }

  test("tells the callers of what goes on after its bound", async (t) => {
    const { goes, caller } = await ring(t);
    const { handler, reached } = held();
    const feed: Handler = () =>
      new Response(new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(9)) }));
    const socketed: Handler = (request) => upgradeWebSocket(request).response;
    await goes.mesh.announce([
      { name: "work", handler, options: UNOWNED },
      { name: "feed", handler: feed, options: UNOWNED },
      { name: "socket", handler: socketed, options: UNOWNED },
    ]);
    await until("all are found", async () => {
      const found = ["work", "feed", "socket"].map((name) => caller.find(name, UNOWNED).catch(() => []));
      return (await Promise.all(found)).every(({ length }) => length === 1);
    });
    const under = caller.fetch("https://work.mesh/", { ...UNOWNED, method: "POST", body: "" });
    const streaming = await caller.fetch("https://feed.mesh/", UNOWNED);
    const socket = caller.webSocket("wss://socket.mesh/", [], UNOWNED);
    const broken = new Promise<Error>((resolve) =>
      socket.addEventListener("error", ({ error }) => resolve(error)),
    );
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    await reached;
    const told = assert.rejects(under, { class: "Service" });
    const closing = goes.mesh.close({ drain: 50 });
    await Promise.all([told, assert.rejects(streaming.text(), { class: "Service" })]);
    assert.equal((await broken).name, "StreamRefused");
    await closing;
  });

  test("waits no longer when it is closed once more", async (t) => {
    const { goes, caller } = await ring(t);
    const { handler, reached } = held();
    await goes.mesh.serve("work", handler, UNOWNED);
    const told = assert.rejects(caller.fetch("https://work.mesh/", { ...UNOWNED, method: "POST" }));
    await reached;
    const draining = goes.mesh.close({ drain: LONG_MS });
    await goes.mesh.close();
    await Promise.all([draining, told]);
  });

  test("with nothing to finish closes at once, and wrong options are refused", async (t) => {
    const { goes } = await ring(t);
    for (const drain of [-1, Number.NaN, Number.POSITIVE_INFINITY, "5" as never]) {
      await assert.rejects(goes.mesh.close({ drain }), { name: "BadConfig", message: /^drain is a number/ });
    }
    await goes.mesh.close({ drain: LONG_MS });
  });
});
