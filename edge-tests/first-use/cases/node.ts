import assert from "node:assert/strict";

import { changedFile, sectionOf } from "../document.ts";
import { Newcomer } from "../newcomer.ts";
import type { Scenario } from "../scenario.ts";
import { failureOf, QUICK_START } from "./member.ts";

const ID = "[0-9a-f]{64}";
/** What the sections have a newcomer install once. */
const INSTALL = sectionOf(QUICK_START, "Node").slice(0, 1);

/** The first page and the quick start in Node: the ten lines, WebSocket, a server, a map in a capsule. */
export const node: Scenario = async ({ report, tools, nodes }) => {
  for (const which of nodes) {
    const { version, folder } = tools.nodes[which];
    const platform = `node ${version}`;
    const { note } = report;
    const newcomer = await Newcomer.arrive({
      path: [folder, tools.selfsame],
      replaced: tools.replaced,
      note,
    });
    try {
      await report.check(platform, "the package is installed", () => newcomer.follow(INSTALL));
      for (const document of ["README.md", "runtime/README.md"]) {
        await report.check(platform, `${document} says hello`, async () => {
          const output = await newcomer.follow(sectionOf(document, "Ten lines"));
          assert.match(output.get("node hello.mjs") ?? "", new RegExp(`^200 hello ${ID}$`, "m"));
        });
      }
      await report.check(platform, "the quick start's programs run", () => programs(newcomer));
      await report.check(platform, "a map in a capsule is written and read", async () => {
        const output = await newcomer.follow(sectionOf(QUICK_START, "A map in a capsule"));
        const printed = output.get("node settings.mjs") ?? "";
        for (const line of ["dark", "theme/ada dark", "theme/bob light"]) {
          assert.ok(printed.split("\n").includes(line), `${line} in\n${printed}`);
        }
      });
      await report.check(platform, "a member that is not there is named", async () => {
        const blocks = sectionOf(QUICK_START, "Node");
        const away = changedFile(blocks, "hello.mjs", "ws://127.0.0.1:7117#", "ws://127.0.0.1:7004#");
        newcomer.write({ ...away, file: "away.mjs" });
        const why = await failureOf(newcomer, "node away.mjs");
        assert.match(why, /DialFailed.*ECONNREFUSED/);
        assert.ok(why.includes(newcomer.filled("ws://127.0.0.1:7004")), why);
      });
      await report.check(platform, "a private address is refused by address and option", () =>
        refusal(newcomer),
      );
    } finally {
      await newcomer.leave();
    }
  }
};

async function programs(newcomer: Newcomer): Promise<void> {
  const output = await newcomer.follow(sectionOf(QUICK_START, "Node").slice(1));
  assert.match(output.get("node hello.mjs") ?? "", new RegExp(`^200 hello ${ID}$`, "m"));
  assert.match(output.get("node chat.mjs") ?? "", /^you said hello$/m);
  const answer = await fetch(newcomer.filled("http://127.0.0.1:7000/"));
  assert.equal(await answer.text(), `hello from ${newcomer.printed.get("PEER-ID")}`);
}

/** Without `allowPrivate` the ten lines fail, for a member and for a leaf, and say why. */
async function refusal(newcomer: Newcomer): Promise<void> {
  const blocks = sectionOf(QUICK_START, "Node");
  const address = newcomer.filled("ws://127.0.0.1:7117");
  for (const [name, from, to] of [
    ["ForbiddenAddress", ", allowPrivate: true };", " };"],
    [
      "NoBootstrap",
      "await join({ ...options, bootstrap",
      "await join({ ...options, allowPrivate: false, bootstrap",
    ],
  ] as const) {
    newcomer.write({ ...changedFile(blocks, "hello.mjs", from, to), file: "refused.mjs" });
    const why = await failureOf(newcomer, "node refused.mjs");
    assert.ok(why.includes(name) && why.includes(address) && why.includes("allowPrivate"), why);
  }
}
