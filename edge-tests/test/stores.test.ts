/** The store of a browser keeps the contract that every store keeps; those of the other runtimes are tested with them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { storeContract } from "selfsame/store-contract";

import { HOW_TO_GET_A_BROWSER, launchChromium } from "../lib/chromium.ts";
import { servePage } from "../lib/files.ts";

test("store contract: IndexedDB of Chromium", async (context) => {
  const browser = await launchChromium();
  if (browser === undefined) return context.skip(HOW_TO_GET_A_BROWSER);
  const server = await servePage("stores/page.ts");
  try {
    const page = await browser.newPage();
    await page.goto(server.url);
    await page.waitForFunction("document.title === 'ready'");
    const results = (await page.evaluate("keepsContract()")) as { name: string; error: string }[];
    assert.equal(results.length, storeContract.length);
    for (const { name, error } of results) await context.test(name, () => assert.equal(error, ""));
  } finally {
    await browser.close();
    server.close();
  }
});
