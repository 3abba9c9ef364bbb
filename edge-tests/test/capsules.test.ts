/** A replica in a browser answers like any other; the tests of the other runtimes are with them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { servePage } from "../lib/files.ts";
import { ROOT } from "../lib/run.ts";

interface Conversation {
  readonly seed: string;
  readonly now_ms: number;
  readonly exchanges: readonly { what: string; request: string; response: string }[];
}

test("a replica in Chromium answers like the one that is no WebAssembly, and keeps what it stored", async (context) => {
  const browser = await launchChromium();
  if (browser === undefined) return context.skip(HOW_TO_GET_A_BROWSER);
  const { seed, now_ms, exchanges } = JSON.parse(
    readFileSync(join(ROOT, "runtime/test/capsule-conversation.json"), "utf8"),
  ) as Conversation;
  const server = await servePage("capsules/page.ts");
  try {
    const page = await browser.newPage();
    await page.goto(server.url);
    const given = JSON.stringify([seed, now_ms, exchanges.map(({ request }) => request)]);
    const answer = await page.evaluate(`converse(...${given})`);
    const { responses, capsules } = answer as { responses: string[]; capsules: string[] };
    for (const [index, { what, response }] of exchanges.entries())
      assert.equal(responses[index], response, what);
    assert.equal(capsules.length, 2);
  } finally {
    await browser.close();
    server.close();
  }
});
