// In a file of its own: the clock of the whole process is replaced.
import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { member, OWNER_SEED } from "./support.ts";

const DAY_MS = 24 * 3_600_000;

/** Lets time pass, at the end of it in small steps in which what the timers began can go on. */
async function pass(ms: number): Promise<void> {
  mock.timers.tick(ms);
  for (let step = 0; step < 20; step++) {
    mock.timers.tick(500);
    await new Promise(setImmediate);
  }
}

test("a grant that a node made itself is renewed before it expires, without the application's doing", async () => {
  mock.timers.enable({ apis: ["Date", "setTimeout", "setInterval"], now: Date.now() });
  const owner = await member({ ownerSeed: OWNER_SEED });
  try {
    await owner.mesh.serve("long", () => new Response("still here"), { weight: 0.5, version: "1" });
    for (let day = 1; day <= 65; day++) {
      await pass(DAY_MS);
      const providers = await owner.mesh.find("long").catch(() => []);
      assert.equal(providers[0]?.weight, 0.5, `day ${day}`);
    }
    assert.equal(await (await owner.mesh.fetch("https://long.mesh/")).text(), "still here");
  } finally {
    await owner.mesh.close();
    mock.timers.reset();
  }
});
