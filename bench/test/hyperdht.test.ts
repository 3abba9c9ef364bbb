import assert from "node:assert/strict";
import { test } from "node:test";

import { type LoopResult, loopOf } from "../src/harness/loop.ts";
import { Network } from "../src/harness/network.ts";
import { hyperdhtProcess } from "../src/harness/runtimes.ts";

test("hyperdht stores, finds and looks up over two processes as the harness asks", async () => {
  await using network = await Network.start(3, hyperdhtProcess);
  await using client = hyperdhtProcess();
  await client.request(`client/${network.address}`, 1);
  const run = async (task: string): Promise<LoopResult> => loopOf(task, client, task).run(20);
  for (const kind of ["mutable", "announce", "immutable"]) {
    await run(`put/${kind}/4`);
    assert.ok((await run(`get/${kind}/4`)).requests >= 20, kind);
  }
  const lookups = await network.lookups("lookups", 4).run(20);
  assert.ok(lookups.requests >= 20 && lookups.ns > 0);
  await assert.rejects(client.request("forget/4", 1), /hyperdht, forget\/4: .*no task forget\/4/);
});
