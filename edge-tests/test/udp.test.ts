/** One ring over UDP of the wasmtime host and Node, through a network that loses datagrams. */
import assert from "node:assert/strict";
import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import { mkdirSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { join as joinPath } from "node:path";
import { after, before, describe, it } from "node:test";
import { join, memory, type NodeMesh } from "selfsame/node";
import { buildHost } from "selfsame-twiitr/build";
import { Child } from "selfsame-twiitr/child";
import { freePort } from "selfsame-twiitr/ports";

import { DATA, within } from "../lib/cluster.ts";
import { ROOT } from "../lib/run.ts";

const NETWORK = "udp";
const UNOWNED = { unowned: true } as const;
/** Of so many datagrams one is lost. */
const LOSES_ONE_OF = 50;
const FOLDER = joinPath(DATA, "udp");

let selfsame: string;
let host: Child;
let node: NodeMesh;
/** The application behind the host. */
let app: Server;
let behind: number;
/** Where the host listens, and the way in through the network that loses datagrams. */
let inside: number;
let outside: number;
const sockets = new Set<Socket>();

/** Carries datagrams of whoever sends to it to the host and back, each on a socket of its own. */
async function startWay(): Promise<void> {
  const way = await bound(outside);
  const ways = new Map<string, Promise<Socket>>();
  let count = 0;
  const isLost = (): boolean => ++count % LOSES_ONE_OF === 0;
  const wayOf = async ({ address, port }: RemoteInfo): Promise<Socket> => {
    const far = await bound(0);
    far.on("message", (bytes) => isLost() || way.send(bytes, port, address));
    return far;
  };
  way.on("message", async (bytes, from) => {
    const key = `${from.address} ${from.port}`;
    if (!ways.has(key)) ways.set(key, wayOf(from));
    const far = await ways.get(key);
    if (!isLost()) far?.send(bytes, inside, "127.0.0.1");
  });
}

async function bound(port: number): Promise<Socket> {
  const socket = createSocket("udp4");
  sockets.add(socket);
  // What nobody takes is lost.
  socket.on("error", () => undefined);
  socket.bind(port, "127.0.0.1");
  await once(socket, "listening");
  return socket;
}

async function startHost(): Promise<Child> {
  const started = Child.start({
    name: "the host",
    command: selfsame,
    args: [
      ...["--json", "node", "--network", NETWORK, "--data", joinPath(FOLDER, "host"), "--allow-private"],
      ...["--listen", `udp://127.0.0.1:${inside}`, "--address", `udp://127.0.0.1:${outside}`],
      ...["--serve", `behind=http://127.0.0.1:${behind}`, "--unowned", "--end-with-input"],
    ],
    cwd: ROOT,
    env: { PATH: process.env.PATH ?? "" },
    log: joinPath(FOLDER, "host.log"),
    isReady: ({ event }) => event === "serving",
  });
  await started.ready;
  return started;
}

before(async () => {
  ({ selfsame } = await buildHost(() => undefined));
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  inside = await freePort(8750);
  outside = await freePort(8750, [inside]);
  behind = await freePort(8750, [inside, outside]);
  const own = `udp://127.0.0.1:${await freePort(8750, [inside, outside, behind])}`;
  await startWay();
  app = createServer((_, answer) => answer.end("from behind the host"));
  await new Promise<void>((resolve) => app.listen(behind, "127.0.0.1", resolve));
  host = await startHost();
  node = await join({
    network: NETWORK,
    storage: memory(),
    listen: own,
    address: own,
    bootstrap: `udp://127.0.0.1:${outside}#${String(host.said("id"))}`,
    allowPrivate: true,
  });
});

after(async () => {
  await node?.close();
  await host?.stop();
  app?.close();
  for (const socket of sockets) socket.close();
});

const fromBehind = async (): Promise<string> => (await node.fetch("https://behind.mesh/", UNOWNED)).text();

describe("the wasmtime host and Node over UDP", () => {
  it("are one ring, in which each has dialled the other", async () => {
    await within(20_000, async () => {
      const { successors, peers } = await node.status();
      assert.equal(successors[0]?.id, host.said("id"));
      assert.deepEqual(peers, [host.said("id")]);
    });
    assert.equal(await fromBehind(), "from behind the host");
  });

  it("carry large bodies to a leaf and back, whatever is lost", async () => {
    await node.serve("echo", async (request) => new Response(request.body), UNOWNED);
    const leaf = await join({
      network: NETWORK,
      storage: memory(),
      bootstrap: `udp://127.0.0.1:${outside}#${String(host.said("id"))}`,
      allowPrivate: true,
    });
    const body = Array.from({ length: 150_000 }, (_, count) => `${count} `).join("");
    const answer = await leaf.fetch("https://echo.mesh/", { method: "POST", body, ...UNOWNED });
    assert.ok((await answer.text()) === body);
    await leaf.close();
  });

  it("go on once the host was ended and started again", async () => {
    await host.stop();
    host = await startHost();
    await within(20_000, async () => assert.equal(await fromBehind(), "from behind the host"));
  });
});
