/**
 * Calls `greeting` at a steady rate, whether or not earlier calls were answered, on Node or Deno. It prints one line of
 * JSON for each second, and ends on SIGTERM after the last answer.
 *
 *     caller.ts '{"network", "bootstrap", "owner", "rate"}'
 */
import process from "node:process";
import { join, memory } from "selfsame";

import { GREETING } from "./greeting.ts";
import { Tally } from "./tally.ts";

/** How a caller is started. */
export type CallerSettings = {
  network: string;
  bootstrap: string[];
  owner: string;
  /** Calls in a second. */
  rate: number;
};

const settings = JSON.parse(process.argv[2] ?? "") as CallerSettings;
const { network, bootstrap, owner, rate } = settings;
const mesh = await join({
  network,
  bootstrap,
  owner: { [GREETING]: owner },
  storage: memory(),
  allowPrivate: true,
});
console.log(JSON.stringify({ id: mesh.id, url: "calling" }));
const tally = new Tally((line) => console.log(JSON.stringify(line)));
let isOver = false;
process.once("SIGTERM", () => {
  isOver = true;
});
await tally.run(
  rate,
  () => isOver,
  () => mesh.fetch(`https://${GREETING}.mesh/`),
);
console.log(JSON.stringify({ done: true }));
await mesh.close();
process.exit(0);
