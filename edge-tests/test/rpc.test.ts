/**
 * RPC with tickets from the mesh: the wasmtime host and the package each call a service of the other over UDP, also through routers of the
 * other, and over HTTP and WebSocket, and a Worker both over HTTP.
 */
import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join as joinPath } from "node:path";
import { after, before, it } from "node:test";
import { join, memory, type NodeMesh, serve } from "selfsame/node";
import {
  createRpcClient,
  createRpcRouter,
  createRpcServer,
  type NodeRpcServer,
  type RpcClient,
} from "selfsame/rpc";
import { freePort } from "selfsame-twiitr/ports";

import { DATA } from "../lib/cluster.ts";
import { run } from "../lib/run.ts";
import { startWorker } from "../lib/runtimes.ts";
import { type Program, selfsame, start } from "../lib/sidecar.ts";

const NETWORK = "rpc";
const UNOWNED = { unowned: true } as const;
const folder = joinPath(DATA, "rpc");
const ROUTER_KEY: Uint8Array = new Uint8Array(32).fill(9);
const routerKeyFile = joinPath(folder, "router.key");

/** The application behind the host, which answers with what it gets. */
let app: Server;
let host: Program;
/** Where the host and the package answer over UDP. */
let hostAddress: string;
let packageAddress: string;
let mesh: NodeMesh;
let bootstrap: string;
let client: RpcClient;
let server: NodeRpcServer;
let web: Server;
/** Where the host answers over HTTP, and the package, and both over WebSocket. */
let hostUrl: string;
let webUrl: string;
const socketUrlOf = (url: string): string => url.replace("http:", "ws:");
let worker: Awaited<ReturnType<typeof startWorker>>;

before(async () => {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(routerKeyFile, `${Buffer.from(ROUTER_KEY).toString("hex")}\n`, { mode: 0o600 });
  app = createServer((request, response) => request.pipe(response)).listen(0, "127.0.0.1");
  const port = await freePort(8780);
  const address = `ws://127.0.0.1:${port}/.mesh`;
  const listen = { port, hostname: "127.0.0.1" };
  mesh = await join({ network: NETWORK, storage: memory(), listen, address, allowPrivate: true });
  bootstrap = `${address}#${mesh.id}`;
  host = start("the host", selfsame(), [
    ...[
      "--json",
      "rpc",
      "serve",
      "host-echo",
      "--to",
      `http://127.0.0.1:${(app.address() as AddressInfo).port}/`,
    ],
    ...[
      "--udp",
      "127.0.0.1:0",
      "--http",
      "127.0.0.1:0",
      "--ticket-key",
      joinPath(folder, "ticket.key"),
      "--router-key",
      routerKeyFile,
      "--data",
      joinPath(folder, "host"),
    ],
    ...[
      "--network",
      NETWORK,
      "--join",
      bootstrap,
      "--unowned",
      "--allow-private",
      "--idempotent",
      "--end-with-input",
    ],
  ]);
  const serving = JSON.parse(await host.line((line) => JSON.parse(line).event === "serving-rpc"));
  hostAddress = serving.udp;
  hostUrl = serving.http;
  client = createRpcClient({ mesh, lookup: UNOWNED });
  server = createRpcServer({
    service: "package",
    network: NETWORK,
    ticketKey: new Uint8Array(32).fill(7),
    routerKey: ROUTER_KEY,
    handler: ({ payload }) => payload,
  });
  packageAddress = (await server.listenUdp({ host: "127.0.0.1", port: 0 })).address;
  await mesh.serve("package-echo", server.tickets(packageAddress), UNOWNED);
  web = await serve({ fetch: (request, info) => server.fetch(request, info), hostname: "127.0.0.1" });
  webUrl = `http://127.0.0.1:${(web.address() as AddressInfo).port}/rpc`;
  server.attach(web, "/rpc");
  await mesh.serve("package-web", server.tickets(webUrl), UNOWNED);
  await mesh.serve("package-sockets", server.tickets(socketUrlOf(webUrl)), UNOWNED);
  const settings = { network: NETWORK, port: await freePort(8790), bootstrap };
  worker = await startWorker("edge-tests/rpc/mesh/worker.ts", settings, folder);
});

after(async () => {
  await worker?.miniflare.dispose();
  client?.close();
  server?.close();
  await host?.stop();
  await mesh?.close();
  app?.close();
  web?.close();
  web?.closeAllConnections();
});

for (const idempotent of [false, true]) {
  it(`the package calls the host, ${idempotent ? "idempotent" : "bound to one replica"}`, async () => {
    for (const bytes of [0, 4, 1024 * 1024]) {
      const payload = new Uint8Array(bytes).map((_, at) => at * 7 + (at >> 8));
      for (const server of [undefined, hostUrl, socketUrlOf(hostUrl)]) {
        const answer = await client.call("host-echo", payload, { idempotent, server });
        assert.equal(Buffer.compare(answer.payload, payload), 0, `${bytes} bytes`);
        if (server !== undefined) assert.equal(answer.server, server);
      }
    }
  });
}

it("the host calls the package", async () => {
  const mesh = ["--network", NETWORK, "--join", bootstrap, "--unowned", "--allow-private"];
  for (const text of ["ping", "x".repeat(100_000)]) {
    const at = (url: string): string[] => ["package-echo", "--server", url];
    const targets = [
      ["package-echo"],
      ["package-web"],
      ["package-sockets"],
      at(webUrl),
      at(socketUrlOf(webUrl)),
    ];
    for (const to of targets) {
      assert.equal(await run(selfsame(), ["rpc", "call", ...to, ...mesh, "-d", text]), text);
    }
  }
});

it("the package calls the host through its own router", async (t) => {
  const router = createRpcRouter({ routerKey: ROUTER_KEY, servers: [hostAddress] });
  t.after(() => router.close());
  const { address } = await router.listenUdp({ host: "127.0.0.1", port: 0 });
  for (const idempotent of [true, false]) {
    for (const bytes of [4, 100_000]) {
      const payload = new Uint8Array(bytes).map((_, at) => at * 7 + (at >> 8));
      const answer = await client.call("host-echo", payload, { idempotent, server: address });
      assert.equal(Buffer.compare(answer.payload, payload), 0, `${bytes} bytes`);
      assert.equal(answer.server, hostAddress);
    }
  }
});

it("callers of both kinds call the package through the host's router", async (t) => {
  const router = start("the router", selfsame(), [
    ...["--json", "rpc", "route", "--udp", "127.0.0.1:0", "--router-key", routerKeyFile],
    ...["--server", packageAddress, "--end-with-input"],
  ]);
  t.after(() => router.stop());
  const told = JSON.parse(await router.line((line) => JSON.parse(line).event === "routing-rpc"));
  const answer = await client.call("package-echo", Buffer.from("ping"), { server: told.udp });
  assert.equal(Buffer.from(answer.payload).toString(), "ping");
  assert.equal(answer.server, packageAddress);
  const at = [
    "--network",
    NETWORK,
    "--join",
    bootstrap,
    "--unowned",
    "--allow-private",
    "--server",
    told.udp,
  ];
  assert.equal(
    await run(selfsame(), ["rpc", "call", "package-echo", ...at, "-d", "from the host"]),
    "from the host",
  );
});

it("Node calls isolates of a Worker, in a session of its Durable Object and then with the ticket that this brought", async () => {
  for (const at of ["https://worker-echo.mesh", `${worker.url}/rpc`]) {
    const { payload, server } = await client.call("worker-echo", Buffer.from("ping"), { idempotent: true });
    assert.deepEqual([Buffer.from(payload).toString(), server], [`${mesh.id} ping`, at]);
  }
});

it("a Worker calls Node and the host over HTTP, once", async () => {
  for (const service of ["package-web", "host-echo"]) {
    const response = await fetch(`${worker.url}/call/${service}`, { method: "POST", body: "from workerd" });
    assert.equal(await response.text(), "from workerd", service);
  }
});
