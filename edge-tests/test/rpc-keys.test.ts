/** Ticket keys that a replica of the wasmtime host and one of the package tell each other over the mesh. */
import assert from "node:assert/strict";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join as joinPath } from "node:path";
import { it, type TestContext } from "node:test";
import { join, memory, type NodeMesh } from "selfsame/node";
import { createRpcClient, createRpcServer, type RpcMesh, shareTicketKeys } from "selfsame/rpc";
import { freePort } from "selfsame-twiitr/ports";

import { DATA } from "../lib/cluster.ts";
import { run } from "../lib/run.ts";
import { selfsame, start } from "../lib/sidecar.ts";

const NETWORK = "rpc-keys";
const SERVICE = "echo";
const DAY_MS = 24 * 3_600_000;
/** How often tickets are tried until both replicas have the same keys: each time takes a call or two. */
const PATIENCE_MS = 30_000;

it("a replica of the host and one of the package open the same tickets", async (t) => {
  const folder = joinPath(DATA, "rpc-keys");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const port = await freePort(8770);
  const address = `ws://127.0.0.1:${port}/.mesh`;
  const mesh = await join({
    network: NETWORK,
    storage: memory(),
    ownerSeed: "31".repeat(32),
    listen: { port, hostname: "127.0.0.1" },
    address,
    allowPrivate: true,
  });
  t.after(() => mesh.close());
  const package_ = await startPackage(t, mesh);
  const host = await startHost(t, mesh, `${address}#${mesh.id}`, folder);
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await openTheSame(mesh, [package_, host]))) {
    assert.ok(performance.now() < deadline, "the replicas have not told each other their keys");
  }
});

/** Starts a replica of the package; its address. */
async function startPackage(t: TestContext, mesh: NodeMesh): Promise<string> {
  const ticketKey = shareTicketKeys({ mesh, service: SERVICE });
  const handler = ({ payload }: { payload: Uint8Array }): Uint8Array => payload;
  const options = { service: SERVICE, network: NETWORK, ticketKey, handler, idempotent: true };
  const server = createRpcServer(options);
  const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
  await mesh.serve(SERVICE, server.tickets(address), { grant: grantTo(mesh, mesh.id) });
  t.after(() => {
    server.close();
    ticketKey.close();
  });
  return address;
}

/** Starts a replica of the host, with a grant; its address. */
async function startHost(t: TestContext, mesh: NodeMesh, bootstrap: string, folder: string): Promise<string> {
  const app = createServer((request, response) => request.pipe(response)).listen(0, "127.0.0.1");
  t.after(() => app.close());
  const data = joinPath(folder, "host");
  const id = await run(selfsame(), ["id", "new", "--network", NETWORK, "--data", data]);
  const grant = joinPath(folder, "echo.grant");
  writeFileSync(grant, grantTo(mesh, id.trim().split(/\s+/).at(-1) ?? ""));
  const to = `http://127.0.0.1:${(app.address() as AddressInfo).port}/`;
  const line = `--json rpc serve ${SERVICE} --to ${to} --udp 127.0.0.1:0 --network ${NETWORK} --join ${bootstrap}`;
  const more = ["--data", data, "--grant", grant, "--allow-private", "--idempotent", "--end-with-input"];
  const host = start("the host", selfsame(), [...line.split(" "), ...more]);
  t.after(() => host.stop());
  return JSON.parse(await host.line((text) => JSON.parse(text).event === "serving-rpc")).udp;
}

function grantTo(mesh: NodeMesh, peer: string): string {
  return mesh.grant(SERVICE, peer, { expires: new Date(Date.now() + DAY_MS) });
}

/** Whether one ticket is enough for a client that calls all of these replicas. */
async function openTheSame(mesh: NodeMesh, servers: readonly string[]): Promise<boolean> {
  let asked = 0;
  const counting: RpcMesh = {
    allowPrivate: true,
    fetch: (input, init) => {
      asked++;
      return mesh.fetch(input, init);
    },
  };
  using client = createRpcClient({ mesh: counting, lookup: { owner: mesh.ownerKey } });
  // Until the replicas have the same keys, tickets may come from the wrong one time and again.
  const call = (server: string): Promise<boolean> =>
    client.call(SERVICE, new Uint8Array(4), { idempotent: true, server }).then(
      () => true,
      () => false,
    );
  for (const server of servers) if (!(await call(server))) return false;
  return asked === 1;
}
