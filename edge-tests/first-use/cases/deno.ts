import assert from "node:assert/strict";

import { changedFile, sectionOf } from "../document.ts";
import type { Scenario } from "../scenario.ts";
import { failureOf, QUICK_START, withMember } from "./member.ts";

const PLATFORM = "deno";
const RUN = "deno run --allow-net --allow-read --allow-write --allow-env";

/** The quick start's program for Deno, and the first page's ten lines there. */
export const deno: Scenario = async (stage) => {
  const { report } = stage;
  const newcomer = await report.check(PLATFORM, "the member of the quick start runs", () =>
    withMember(stage),
  );
  if (newcomer === undefined) return;
  try {
    const blocks = sectionOf(QUICK_START, "Deno");
    await report.check(PLATFORM, "the quick start's program calls a service", async () => {
      const output = await newcomer.follow(blocks);
      const answer = output.get("curl -s http://127.0.0.1:7001/") ?? "";
      assert.ok(answer.includes(`hello from ${newcomer.printed.get("PEER-ID")}`), answer);
    });
    await report.check(PLATFORM, "the quick start's program has types", () =>
      newcomer.run({ text: "deno check hello.ts", prints: undefined }),
    );
    await report.check(PLATFORM, "the ten lines run with selfsame/deno", async () => {
      const blocks = sectionOf("README.md", "Ten lines");
      newcomer.write({
        ...changedFile(blocks, "hello.mjs", "selfsame/node", "selfsame/deno"),
        file: "ten.mjs",
      });
      // It ends by itself, unlike the server.
      const output = await newcomer.run({ text: `command ${RUN} ten.mjs`, prints: undefined });
      assert.match(output, /^200 hello [0-9a-f]{64}$/m);
    });
    await report.check(PLATFORM, "a member that is not there is named", async () => {
      newcomer.write({ ...changedFile(blocks, "hello.ts", "deno.sqlite", "away.sqlite"), file: "away.ts" });
      const why = await failureOf(newcomer, `command ${RUN} away.ts ws://127.0.0.1:7004/.mesh#PEER-ID`);
      assert.match(why, /DialFailed/);
      assert.ok(why.includes(newcomer.filled("ws://127.0.0.1:7004/.mesh: ")), why);
    });
    await report.check(PLATFORM, "a private address is refused by address and option", async () => {
      const hello = changedFile(blocks, "hello.ts", "allowPrivate: true,", "");
      const text = hello.text.replace("deno.sqlite", "refused.sqlite");
      newcomer.write({ ...hello, file: "refused.ts", text });
      const why = await failureOf(newcomer, `command ${RUN} refused.ts ws://127.0.0.1:7000/.mesh#PEER-ID`);
      assert.match(why, /NoBootstrap/);
      assert.ok(
        why.includes(newcomer.filled("ws://127.0.0.1:7000/.mesh")) && why.includes("allowPrivate"),
        why,
      );
    });
  } finally {
    await newcomer.leave();
  }
};
