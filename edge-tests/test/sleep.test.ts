/**
 * A Durable Object in local workerd really sleeps, wakes for a sealed frame on the socket it slept on, and costs next to
 * nothing while it idles. The ten minutes are real ones; SLEEP_MINUTES shortens them for a look, with limits to match.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Miniflare } from "miniflare";
import { join, memory, type NodeMesh } from "selfsame/node";
import { bundleWorker } from "selfsame-twiitr/build";
import { localWorker } from "selfsame-twiitr/local-worker";
import { freePort } from "selfsame-twiitr/ports";

import { DATA, within } from "../lib/cluster.ts";
import { ROOT } from "../lib/run.ts";

const { SLEEP_MINUTES = "10" } = process.env;
const MINUTES = Number(SLEEP_MINUTES);
/** What an idle minute may cost. */
const ALARMS_A_MINUTE = 1;
const ROWS_A_MINUTE = 2;
/** The object is gone from memory after so much silence. */
const SILENCE_MS = 15_000;
/** Maintenance slows down while nothing changes, up to once in 60 s: until then the ring is not idle. */
const SETTLE_MS = 150_000;

const costs: Record<string, number> = { wake: 0, alarm: 0, row: 0 };
let miniflare: Miniflare;
let peer: NodeMesh;
let nodeId: string;
let disconnects = 0;

before(async () => {
  const folder = joinPath(DATA, "sleep");
  await bundleWorker(joinPath(ROOT, "edge-tests/sleep/worker.ts"), folder);
  const port = await freePort(8700);
  const url = `http://127.0.0.1:${port}`;
  miniflare = new Miniflare({
    ...localWorker({
      modules: {
        "worker.js": readFileSync(joinPath(folder, "worker.js"), "utf8"),
        "core.wasm": new Uint8Array(readFileSync(joinPath(folder, "core.wasm"))),
      },
      port,
      bindings: { URL: url },
      durableObjects: { NODE: "Node" },
    }),
    handleStructuredLogs: ({ message }) => {
      const cost = /^cost (\w+)$/.exec(message)?.[1];
      if (cost !== undefined) costs[cost] = (costs[cost] ?? 0) + 1;
      else process.stderr.write(`${message}\n`);
    },
  });
  await miniflare.ready;
  nodeId = ((await (await fetch(`${url}/status`)).json()) as { id: string }).id;
  const own = await freePort(8750);
  peer = await join({
    network: "sleep",
    bootstrap: `ws://127.0.0.1:${port}/.mesh#${nodeId}`,
    address: `http://127.0.0.1:${own}/.mesh`,
    listen: { port: own, hostname: "127.0.0.1" },
    storage: memory(),
    allowPrivate: true,
    idleMs: 60_000,
    onEvent: (event) => {
      if (event.type === "peer-disconnected") disconnects += 1;
    },
  });
});

after(async () => {
  await peer?.close();
  await miniflare?.dispose();
});

/** Asks the sleeping node over the mesh, so with a sealed frame on its socket. */
async function bootOverMesh(): Promise<string> {
  const response = await peer.fetch("https://boot.mesh/", { unowned: true, peer: nodeId });
  assert.equal(response.status, 200);
  return ((await response.json()) as { bootId: string }).bootId;
}

describe("a Durable Object in a ring of two", () => {
  it("sleeps after fifteen seconds of silence, and answers the next sealed frame on the same socket", async (context) => {
    let boot = "";
    await within(20_000, async () => {
      boot = await bootOverMesh();
    });
    await delay(SETTLE_MS);
    boot = await bootOverMesh();
    disconnects = 0;
    // Maintenance comes once a minute: fifteen seconds of silence lie between.
    await delay(SILENCE_MS);
    const start = performance.now();
    const next = await bootOverMesh();
    context.diagnostic(`woken and answered in ${(performance.now() - start).toFixed(0)} ms`);
    assert.notEqual(next, boot, "the object was awake all the time");
    assert.equal(disconnects, 0, "the session did not survive on its socket");
  });

  it(`costs at most ${ALARMS_A_MINUTE} alarm and ${ROWS_A_MINUTE} row writes a minute while nothing happens`, async (context) => {
    await delay(SETTLE_MS);
    const before = { ...costs };
    await delay(MINUTES * 60_000);
    const spent = (name: string): number => (costs[name] ?? 0) - (before[name] ?? 0);
    context.diagnostic(
      `${MINUTES} idle minutes: ${spent("alarm")} alarms, ${spent("row")} row writes, ${spent("wake")} wake-ups`,
    );
    assert.ok(spent("alarm") <= ALARMS_A_MINUTE * MINUTES, `${spent("alarm")} alarms`);
    assert.ok(spent("row") <= ROWS_A_MINUTE * MINUTES, `${spent("row")} row writes`);
    assert.equal(disconnects, 0);
    await bootOverMesh();
  });
});
