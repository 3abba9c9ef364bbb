import assert from "node:assert/strict";
import type { Browser } from "playwright-core";

import { HOW_TO_GET_A_BROWSER, launchChromium } from "../../lib/chromium.ts";
import { changedFile, sectionOf } from "../document.ts";
import type { Newcomer } from "../newcomer.ts";
import type { Scenario } from "../scenario.ts";
import { QUICK_START, withMember } from "./member.ts";

const PLATFORM = "chromium";
/** Time for a page to join and to be answered. */
const ANSWER_MS = 30_000;

/** The quick start's page in a real Chromium. */
export const browser: Scenario = async (stage) => {
  const { report } = stage;
  const chromium = await report.check(PLATFORM, "there is a browser", async () => {
    const launched = await launchChromium();
    assert.ok(launched !== undefined, HOW_TO_GET_A_BROWSER);
    return launched;
  });
  if (chromium === undefined) return;
  const newcomer = await report.check(PLATFORM, "the member of the quick start runs", () =>
    withMember(stage),
  );
  try {
    if (newcomer === undefined) return;
    const blocks = sectionOf(QUICK_START, "Browser");
    await report.check(PLATFORM, "the page is bundled and served", () => newcomer.follow(blocks));
    await report.check(PLATFORM, "the page calls a service and is called", () => page(chromium, newcomer));
    await report.check(PLATFORM, "a member that is not there is named", async () => {
      newcomer.write(changedFile(blocks, "src/page.js", ":7000/", ":7004/"));
      const member = newcomer.filled("ws://127.0.0.1:7004/.mesh");
      const why = await errorOf(chromium, newcomer, member);
      assert.match(why, /^DialFailed/);
      assert.ok(why.includes(member), why);
    });
    await report.check(PLATFORM, "a private address is refused by address and option", async () => {
      newcomer.write(changedFile(blocks, "src/page.js", "allowPrivate: true,", ""));
      const member = newcomer.filled("ws://127.0.0.1:7000/.mesh");
      const why = await errorOf(chromium, newcomer, member);
      assert.match(why, /^NoBootstrap/);
      assert.ok(why.includes(member) && why.includes("allowPrivate"), why);
    });
  } finally {
    await newcomer?.leave();
    await chromium.close();
  }
};

async function page(chromium: Browser, newcomer: Newcomer): Promise<void> {
  const opened = await chromium.newPage();
  const errors: string[] = [];
  opened.on("pageerror", (error) => errors.push(`${error}`));
  await opened.goto(newcomer.filled("http://127.0.0.1:8000/"));
  const expected = `hello from ${newcomer.printed.get("PEER-ID")}`;
  await opened
    .waitForFunction((text) => document.body.textContent?.includes(text), expected, { timeout: ANSWER_MS })
    .catch((error: Error) => {
      throw new Error(`${error.message}\n${errors.join("\n")}`);
    });
  assert.deepEqual(errors, []);
  const call = "selfsame call https://whiteboard.mesh/ --network twiitr --unowned --allow-private";
  const answer = await newcomer.run({
    text: `${call} --join ws://127.0.0.1:7000/.mesh#PEER-ID`,
    prints: undefined,
  });
  assert.match(answer, /^drawn here/m);
  await opened.close();
}

/** The error of a page that cannot join through a member. */
async function errorOf(chromium: Browser, newcomer: Newcomer, member: string): Promise<string> {
  // The bundler looks for changes no more than four times a second.
  const signal = AbortSignal.timeout(ANSWER_MS);
  const bundle = newcomer.filled("http://127.0.0.1:8000/page.js");
  while (!(await (await fetch(bundle, { signal })).text()).includes(member));
  const opened = await chromium.newPage();
  try {
    const error = opened.waitForEvent("pageerror", { timeout: ANSWER_MS });
    await opened.goto(newcomer.filled("http://127.0.0.1:8000/"));
    const { name, message } = await error;
    return `${name}: ${message}`;
  } finally {
    await opened.close();
  }
}
