import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { loadPlan, type Plan, savePlan } from "./plan.ts";
import { freePort } from "./ports.ts";

const folder = mkdtempSync(join(tmpdir(), "plan-"));
const file = join(folder, "plan.json");
const other = createServer();
let kept: Plan;

before(async () => {
  const wasmtime = await freePort(9300);
  const deno = await freePort(9320);
  const workerd = await freePort(9340);
  const ids = { wasmtime: "w", deno: "d", workerd: "k" };
  kept = { network: "", ports: { wasmtime, deno, workerd }, ids };
  other.listen(deno, "127.0.0.1");
  await once(other, "listening");
});

after(() => {
  other.close();
  rmSync(folder, { recursive: true });
});

describe("a plan whose port somebody else has taken", () => {
  for (const [network, expected] of [
    ["open", { wasmtime: "w", deno: "d", workerd: "k" }],
    [`closed@${"11".repeat(32)}`, { wasmtime: "w", workerd: "k" }],
  ] as const) {
    it(`has the ids that nodes keep in the network ${network.slice(0, 6)}`, async () => {
      savePlan(file, { ...kept, network });
      const { ids, ports } = await loadPlan(file, network);
      assert.notEqual(ports.deno, kept.ports.deno);
      assert.deepEqual(ids, expected);
    });
  }
});
