import assert from "node:assert/strict";

import { changedFile, sectionOf } from "../document.ts";
import type { Newcomer } from "../newcomer.ts";
import type { Scenario } from "../scenario.ts";
import { QUICK_START, withMember } from "./member.ts";

const PLATFORM = "wrangler dev";

/** The quick start's Worker, in a local workerd and under the strict types. */
export const workers: Scenario = async (stage) => {
  const { report } = stage;
  const newcomer = await report.check(PLATFORM, "the member of the quick start runs", () =>
    withMember(stage),
  );
  if (newcomer === undefined) return;
  const id = (): string => newcomer.printed.get("WORKER-ID") ?? "";
  try {
    const blocks = sectionOf(QUICK_START, "Cloudflare Workers");
    await report.check(PLATFORM, "the Worker has types, comes up and serves its owned name", async () => {
      const output = await newcomer.follow(blocks);
      assert.equal(output.get("curl -s http://127.0.0.1:8787/"), `hello ${id()}`);
    });
    await report.check(PLATFORM, "the Worker is in the ring of the member", async () => {
      const status = await statusOf(newcomer);
      assert.equal(status.joined, true);
      assert.deepEqual(
        status.addresses,
        ["ws", "http"].map((s) => newcomer.filled(`${s}://127.0.0.1:8787/.mesh`)),
      );
      assert.deepEqual(
        status.successors?.map((node) => node.id),
        [newcomer.printed.get("PEER-ID")],
      );
    });
    await report.check(PLATFORM, "the Worker can be deployed", () =>
      newcomer.run({ text: "npx wrangler deploy --dry-run --outdir out", prints: undefined }),
    );
    await report.check(PLATFORM, "a member that is not there is named", async () => {
      newcomer.write(changedFile(blocks, ".dev.vars", ":7000/", ":7004/"));
      await newcomer.run({ text: "npx wrangler dev --port 8787", prints: undefined });
      await fetch(newcomer.filled("http://127.0.0.1:8787/status")).then((answer) => answer.text());
      const output = await newcomer.hears("npx wrangler dev --port 8787", /could not join: /);
      const [line = ""] = /could not join: .*/.exec(output) ?? [];
      assert.ok(line.includes(newcomer.filled("http://127.0.0.1:7004/.mesh: ")), line);
    });
    await report.check(PLATFORM, "a private address is refused by address and option", async () => {
      const option = 'allowPrivate: URL.startsWith("http:"),';
      newcomer.write(changedFile(blocks, "src/index.ts", option, ""));
      await newcomer.run({ text: "npx wrangler dev --port 8787", prints: undefined });
      const answer = await fetch(newcomer.filled("http://127.0.0.1:8787/status"));
      assert.equal(answer.status, 500, await answer.text());
      const output = await newcomer.hears("npx wrangler dev --port 8787", /ForbiddenAddress/);
      assert.match(output, /ForbiddenAddress/);
      assert.ok(
        output.includes(newcomer.filled("ws://127.0.0.1:8787/.mesh")) && output.includes("allowPrivate"),
        output,
      );
    });
  } finally {
    await newcomer.leave();
  }
};

interface Status {
  readonly joined?: boolean;
  readonly addresses?: readonly string[];
  readonly successors?: readonly { readonly id: string }[];
}

async function statusOf(newcomer: Newcomer): Promise<Status> {
  const answer = await fetch(newcomer.filled("http://127.0.0.1:8787/status"));
  return (await answer.json()) as Status;
}
