/** One ring over TCP of the wasmtime host and Node: each dials the other, and the host goes on over WebSocket. */
import assert from "node:assert/strict";
import { mkdirSync, rmSync } from "node:fs";
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import { join, memory, type NodeMesh } from "selfsame/node";
import { buildHost } from "selfsame-twiitr/build";
import { Child } from "selfsame-twiitr/child";
import { freePort } from "selfsame-twiitr/ports";

import { DATA, within } from "../lib/cluster.ts";
import { ROOT } from "../lib/run.ts";

const NETWORK = "tcp";
const UNOWNED = { unowned: true } as const;

let host: Child;
let node: NodeMesh;
let way: Server;
/** The application behind the host. */
let app: HttpServer;
const carried = new Set<Socket>();
/** Where the host answers over TCP, and a way in that the test can cut off. */
let outside: number;
let web: number;

before(async () => {
  const { selfsame } = await buildHost(() => undefined);
  const folder = joinPath(DATA, "tcp");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const inside = await freePort(8700);
  outside = await freePort(8700, [inside]);
  web = await freePort(8700, [inside, outside]);
  way = createServer((near) => {
    const far = connect(inside, "127.0.0.1");
    for (const socket of [near, far]) carried.add(socket.on("error", () => undefined));
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => way.listen(outside, "127.0.0.1", resolve));
  app = createHttpServer((_, answer) => answer.end("from behind the host"));
  const behind = await freePort(8700, [inside, outside, web]);
  await new Promise<void>((resolve) => app.listen(behind, "127.0.0.1", resolve));
  host = Child.start({
    name: "the host",
    command: selfsame,
    args: [
      ...["--json", "node", "--network", NETWORK, "--data", joinPath(folder, "host"), "--allow-private"],
      ...["--listen", `tcp://127.0.0.1:${inside}`, "--listen", `ws://127.0.0.1:${web}`],
      ...["--address", `tcp://127.0.0.1:${outside}`, "--address", `ws://127.0.0.1:${web}`],
      ...["--serve", `behind=http://127.0.0.1:${behind}`, "--unowned", "--end-with-input"],
    ],
    cwd: ROOT,
    env: { PATH: process.env.PATH ?? "" },
    log: joinPath(folder, "host.log"),
    isReady: ({ event }) => event === "serving",
  });
  await host.ready;
  const own = `tcp://127.0.0.1:${await freePort(8700, [inside, outside, web])}`;
  node = await join({
    network: NETWORK,
    storage: memory(),
    listen: own,
    address: own,
    bootstrap: `tcp://127.0.0.1:${outside}#${String(host.said("id"))}`,
    allowPrivate: true,
  });
});

after(async () => {
  await node?.close();
  await host?.stop();
  way?.close();
  app?.close();
  for (const socket of carried) socket.destroy();
});

const behind = async (): Promise<string> => (await node.fetch("https://behind.mesh/", UNOWNED)).text();

describe("the wasmtime host and Node over TCP", () => {
  it("are one ring, in which each has dialled the other", async () => {
    await within(20_000, async () => {
      const { successors, peers } = await node.status();
      assert.equal(successors[0]?.id, host.said("id"));
      assert.deepEqual(peers, [host.said("id")]);
    });
    assert.ok(carried.size > 0, "the way in was taken");
  });

  it("carry large bodies through the host's ring to a leaf and back", async () => {
    await node.serve("echo", async (request) => new Response(request.body), UNOWNED);
    const leaf = await join({
      network: NETWORK,
      storage: memory(),
      bootstrap: `tcp://127.0.0.1:${outside}#${String(host.said("id"))}`,
      allowPrivate: true,
    });
    const body = "x".repeat(1024 * 1024);
    const answer = await leaf.fetch("https://echo.mesh/", { method: "POST", body, ...UNOWNED });
    assert.equal((await answer.text()).length, body.length);
    await leaf.close();
  });

  it("go on over WebSocket when TCP is cut off, and the application notices nothing", async () => {
    assert.equal(await behind(), "from behind the host");
    way.close();
    for (const socket of carried) socket.destroy();
    for (let count = 0; count < 20; count++) assert.equal(await behind(), "from behind the host");
  });
});
