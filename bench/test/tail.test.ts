import assert from "node:assert/strict";
import { test } from "node:test";

import { InstancePool } from "../../edge-tests/rpc/modules.ts";
import { drawArrivals, tailOfSingleQueue, tailThroughRouter } from "../src/rpc/tail.ts";

const MACHINES = 10;

test("arrivals load the replicas to 80 %, with the mean that is said", () => {
  for (const distribution of ["bimodal", "fixed", "exponential"] as const) {
    const { at_us, service_us } = drawArrivals(1, 100_000, 4, distribution);
    const work_us = service_us.reduce((sum, one) => sum + one, 0);
    const load = work_us / (4 * (at_us.at(-1) ?? 0));
    assert.ok(Math.abs(load - 0.8) < 0.02, `${distribution}: ${load}`);
  }
});

test("a request that never waits takes its service time and three ways", () => {
  const at_us = Array.from({ length: 1000 }, (_, at) => at * 1000);
  const service_us = at_us.map(() => 100);
  assert.equal(tailOfSingleQueue({ at_us, service_us }, 1), 1.03);
});

test("calls through a router of rpc.wasm take as long as the single queue computes, when there is one replica", async () => {
  const pool = await InstancePool.of(MACHINES);
  const arrivals = drawArrivals(1, 2000, 1, "fixed");
  const setup = { replicas: 1, selection: "random", bound: 3, seed: 1 } as const;
  assert.equal(tailThroughRouter(pool, arrivals, setup), tailOfSingleQueue(arrivals, 1));
});

test("with many replicas random choice waits longer than bounded queues, and these longer than one queue", async () => {
  const pool = await InstancePool.of(MACHINES);
  const arrivals = drawArrivals(1, 8000, 4, "bimodal");
  const tail = (selection: "random" | "bounded") =>
    tailThroughRouter(pool, arrivals, { replicas: 4, selection, bound: 3, seed: 1 });
  const [random, bounded, single] = [tail("random"), tail("bounded"), tailOfSingleQueue(arrivals, 4)];
  assert.ok(random > 1.5 * bounded && bounded >= single, `${random}, ${bounded}, ${single}`);
});
