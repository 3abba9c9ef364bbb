/**
 * Each of the three platforms is killed, started again, and stopped in its tracks, while the others go on. What is
 * measured is what a user sees: whether a login is answered.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { loginStatus } from "selfsame-twiitr/login";
import { PLATFORMS, type Platform } from "selfsame-twiitr/plan";
import { untilCorrect, untilServing } from "selfsame-twiitr/ring";

import { PASSWORD, startCluster, type TestCluster, within } from "../lib/cluster.ts";

/** After a crash and a start the login works again within this time. */
const CRASH_MS = 10_000;
/** The same for a node that answers nothing but whose connections stay. */
const FREEZE_MS = 30_000;
/** How long a node stays frozen: until the others have found out and the ring has closed around it. */
const FROZEN_MS = 15_000;
/** How long the others are asked while a node is down. */
const DOWN_MS = 3000;

let test: TestCluster;

before(async () => {
  test = await startCluster("heal");
});

after(() => test?.stop());

/** An entrance on another platform than the one that is down. */
function otherEntrance(down: Platform): string {
  return test.cluster.urlOf(down === "workerd" ? "deno" : "workerd");
}

async function assertLogin(url: string): Promise<void> {
  assert.equal(await loginStatus(url, "ada", PASSWORD), 200);
}

/** That passwords are checked: once for each fault, as few wrong ones are taken from one source in a minute. */
async function assertRefused(url: string): Promise<void> {
  assert.equal(await loginStatus(url, "ada", "wrong"), 401);
}

for (const platform of PLATFORMS) {
  describe(`${platform} is killed`, () => {
    it("and what another also serves keeps answering", async () => {
      await test.cluster.kill(platform);
      const end = Date.now() + DOWN_MS;
      let answered = 0;
      while (Date.now() < end) {
        await assertLogin(otherEntrance(platform));
        answered += 1;
      }
      assert.ok(answered > 0);
      await assertRefused(otherEntrance(platform));
    });

    it("and started again, and the login works within ten seconds", async (context) => {
      const started = performance.now();
      await test.cluster.start(platform);
      await within(CRASH_MS, () => assertLogin(test.cluster.urlOf("workerd")));
      await untilCorrect(test.cluster, CRASH_MS);
      // Else what is stopped next may be the only one that serves.
      await untilServing(test.cluster, CRASH_MS);
      const seconds = (performance.now() - started) / 1000;
      context.diagnostic(`${platform}: healed ${seconds.toFixed(1)} s after the start`);
      assert.ok(seconds * 1000 <= CRASH_MS, `healing took ${seconds.toFixed(1)} s`);
    });
  });

  describe(`${platform} freezes`, () => {
    it("and the login works within thirty seconds where it is not frozen itself", async (context) => {
      test.cluster.pause(platform, true);
      const started = performance.now();
      let answered = 0;
      while (performance.now() - started < FROZEN_MS) {
        await within(FREEZE_MS, () => assertLogin(otherEntrance(platform)));
        answered += 1;
      }
      await within(FREEZE_MS, () => assertRefused(otherEntrance(platform)));
      const seconds = (performance.now() - started) / 1000;
      context.diagnostic(`${platform}: ${answered} times answered right in ${seconds.toFixed(1)} s of frost`);
      assert.ok(seconds * 1000 <= FREEZE_MS, `the last answer came after ${seconds.toFixed(1)} s`);
    });

    it("and thaws, and the ring is whole within thirty seconds", async (context) => {
      test.cluster.pause(platform, false);
      const started = performance.now();
      await untilCorrect(test.cluster, FREEZE_MS);
      await within(FREEZE_MS, () => assertLogin(test.cluster.urlOf("workerd")));
      const seconds = (performance.now() - started) / 1000;
      context.diagnostic(`${platform}: whole ${seconds.toFixed(1)} s after the thaw`);
      assert.ok(seconds * 1000 <= FREEZE_MS, `healing took ${seconds.toFixed(1)} s`);
    });
  });
}
