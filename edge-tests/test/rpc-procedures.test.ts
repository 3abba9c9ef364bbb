/** Procedures of the RPC between the package and the wasmtime host, both ways: one contract, the same bytes. */
import assert from "node:assert/strict";
import { after, before, it } from "node:test";
import { join, memory, type NodeMesh } from "selfsame/node";
import {
  createRpcClient,
  createRpcServer,
  implement,
  ProcedureError,
  procedure,
  procedures,
  type RpcClient,
  type RpcServer,
  type TypedClient,
  typed,
} from "selfsame/rpc";
import { freePort } from "selfsame-twiitr/ports";
import { z } from "zod";

import { built, type Program, start } from "../lib/sidecar.ts";

const NETWORK = "procedures";
const UNOWNED = { unowned: true } as const;
const contract = procedures({
  check: procedure({
    input: z.object({ url: z.string() }),
    output: z.object({ isSafe: z.boolean() }),
    idempotent: true,
  }),
  count: procedure({ input: z.number(), stream: z.number() }),
  nothing: procedure({}),
});

let mesh: NodeMesh;
let server: RpcServer;
let client: RpcClient;
let host: Program;
let links: TypedClient<typeof contract>;

before(async () => {
  const port = await freePort(8880);
  const address = `ws://127.0.0.1:${port}/.mesh`;
  const listen = { port, hostname: "127.0.0.1" };
  mesh = await join({ network: NETWORK, storage: memory(), listen, address, allowPrivate: true });
  server = createRpcServer({
    service: "package-links",
    network: NETWORK,
    ticketKey: new Uint8Array(32).fill(7),
    idempotent: true,
    handler: implement(contract, {
      check: ({ url }) => ({ isSafe: url.startsWith("https:") }),
      count: async function* (last) {
        for (let number = 1; number <= last; number++) yield number;
      },
      nothing: () => undefined,
    }),
  });
  const udp = await server.listenUdp({ host: "127.0.0.1", port: 0 });
  await mesh.serve("package-links", server.tickets(udp.address), UNOWNED);
  client = createRpcClient({ mesh, lookup: UNOWNED });
  links = typed(client, "rust-links", contract);
  const bootstrap = `${address}#${mesh.id}`;
  host = start("the host", built("examples/procedures"), [NETWORK, bootstrap, "package-links"]);
  await host.line((line) => line === "serving");
});

after(async () => {
  client?.close();
  server?.close();
  await host?.stop();
  await mesh?.close();
});

it("the host calls procedures of the package", async () => {
  assert.equal(await host.line(() => true), "true 12502500");
});

it("the package calls procedures of the host", async () => {
  assert.deepEqual(await links.check({ url: "http://example.com" }), { isSafe: false });
  assert.equal(await links.nothing(), undefined);
  let expected = 0;
  for await (const number of links.count(5000)) assert.equal(number, ++expected);
  assert.equal(expected, 5000);
  for await (const number of links.count(1_000_000_000)) if (number > 3000) break;
});

it("the package is told what the host refuses", async () => {
  await assert.rejects(links.check({ url: "" }), { name: "NotGranted" });
  const wrong = procedures({ check: procedure({ input: z.number() }), other: procedure({}) });
  const api = typed(client, "rust-links", wrong);
  await assert.rejects(api.other(), { name: "NoService" });
  await assert.rejects(api.check(7), (error: unknown) => {
    assert.ok(error instanceof ProcedureError);
    assert.equal(error.name, "BadMessage");
    assert.match(error.issues[0]?.message ?? "", /invalid type: integer `7`/);
    return true;
  });
});
