/**
 * HTTP by RPC, by the cases of HTTP through the mesh: Node, Deno and a Worker each make each request to the service of each, over UDP
 * between the former two and over HTTP with the last one.
 */
import assert from "node:assert/strict";
import { mkdirSync, rmSync } from "node:fs";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Miniflare } from "miniflare";
import { join, memory, type NodeMesh } from "selfsame/node";
import type { Child } from "selfsame-twiitr/child";
import { freePort } from "selfsame-twiitr/ports";

import { casesOf, Player } from "../http/cases.ts";
import { ARRIVED, type Arrived, type Outcome } from "../http/probe.ts";
import { DATA } from "../lib/cluster.ts";
import { startMember, startWorker } from "../lib/runtimes.ts";

const PLATFORMS = ["node", "deno", "workerd"] as const;
const NETWORK = "http-by-rpc";
const UNOWNED = { unowned: true } as const;
/** Only what comes from an entrypoint in another isolate is undone; by RPC the service answers in its own. */
const OF_ENTRYPOINTS = "an answer that its service has compressed, which its platform undoes";
const folder = joinPath(DATA, "rpc-http");
/** More than the file needs, so that none of it is lost without notice. */
const LEAST_ASSERTIONS = 300;

let first: NodeMesh;
let miniflare: Miniflare;
const members: Child[] = [];
const ids: Record<string, string> = {};
const urls: Record<string, string> = {};

before(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const port = await freePort(8810);
  const address = [`ws://127.0.0.1:${port}/.mesh`, `http://127.0.0.1:${port}/.mesh`];
  const listen = { port, hostname: "127.0.0.1" };
  first = await join({ network: NETWORK, storage: memory(), listen, address, allowPrivate: true });
  const bootstrap = `${address[0]}#${first.id}`;
  for (const name of ["node", "deno"]) {
    const settings = { network: NETWORK, name, port: await freePort(8820), bootstrap };
    const member = await startMember("edge-tests/http/member.ts", settings, folder);
    members.push(member);
    ids[name] = String(member.said("id"));
    urls[name] = String(member.said("url"));
  }
  const settings = { network: NETWORK, port: await freePort(8840), bootstrap };
  const worker = await startWorker("edge-tests/http/worker.ts", settings, folder);
  miniflare = worker.miniflare;
  ids.workerd = worker.status.id;
  urls.workerd = worker.url;
});

after(async () => {
  await first?.close();
  await miniflare?.dispose();
  for (const member of members) await member.stop();
});

const player = new Player({
  perform: async (caller, order) => {
    const response = await fetch(`${urls[caller]}/rpc`, { method: "POST", body: JSON.stringify(order) });
    assert.equal(response.status, 200, await response.clone().text());
    return (await response.json()) as Outcome;
  },
  idOf: (caller) => ids[caller],
  arrivedAt: async (callee, run) => {
    const response = await first.fetch(`https://${callee}.mesh${ARRIVED}${run}`, UNOWNED);
    return (await response.json()) as Arrived | null;
  },
});

for (const callee of PLATFORMS) {
  for (const caller of PLATFORMS) {
    describe(`${caller} calls the service in ${callee}`, () => {
      for (const one of casesOf(caller, callee).filter(({ name }) => name !== OF_ENTRYPOINTS))
        it(one.name, () => player.play(one, caller, callee));
    });
  }
}

it("makes all its assertions", () => {
  assert(player.assertions >= LEAST_ASSERTIONS, `${player.assertions}`);
});
