/**
 * Plays a newcomer on every platform, with the packed package in an empty folder and what the documents say word by word:
 *
 *     npm run test:first-use -- [--platform NAME]... [--short] [--built]
 *
 * Code is taken from the documents. Only ports, what earlier commands printed and where the package comes from are filled in.
 * `--short` tries the current Node and the command line alone, `--built` what is built already.
 */
import assert from "node:assert/strict";
import { parseArgs } from "node:util";
import { buildHost } from "selfsame-twiitr/build";

import { browser } from "./cases/browser.ts";
import { commands } from "./cases/commands.ts";
import { deno } from "./cases/deno.ts";
import { node } from "./cases/node.ts";
import { rust } from "./cases/rust.ts";
import { types } from "./cases/types.ts";
import { workers } from "./cases/workers.ts";
import { untried } from "./document.ts";
import { Report } from "./report.ts";
import type { Scenario } from "./scenario.ts";
import { prepare } from "./tools.ts";

const SCENARIOS: Readonly<Record<string, Scenario>> = { node, deno, workers, browser, rust, commands, types };
/** The pages that a newcomer reads. */
const PAGES = [
  "README.md",
  "docs/quick-start.md",
  "docs/sidecar.md",
  "docs/operations.md",
  "docs/closed-networks.md",
  "runtime/README.md",
  "host/README.md",
];
const SHORT = ["node", "commands"];

const { values } = parseArgs({
  options: {
    platform: { type: "string", multiple: true },
    short: { type: "boolean", default: false },
    built: { type: "boolean", default: false },
  },
});
const all = values.short ? SHORT : Object.keys(SCENARIOS);
for (const name of values.platform ?? []) {
  if (SCENARIOS[name] === undefined)
    throw new Error(`there is no platform ${name}: take ${Object.keys(SCENARIOS).join(", ")}`);
}
const chosen = values.platform ?? all;
const report = new Report();
if (!values.built) await buildHost(report.note);
const tools = await prepare(report.note);
const nodes = values.short ? (["current"] as const) : (["lowest", "current"] as const);
for (const name of chosen) {
  report.note(`> ${name}`);
  await SCENARIOS[name]?.({ report, tools, nodes });
}
if (values.platform === undefined && !values.short) {
  await report.check("documents", "no page has a block that was not tried", () => {
    // `npm start` is for a checkout, of which .ci/fresh.mjs makes a new one.
    const left = untried(PAGES).filter(({ text }) => !text.includes("npm start"));
    assert.deepEqual(
      left.map(({ place }) => place),
      [],
    );
  });
}
report.end();
