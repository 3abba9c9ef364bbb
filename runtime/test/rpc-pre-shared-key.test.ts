import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { MeshError } from "../src/codec/code.ts";
import { createRpcClient, preSharedKey } from "../src/entries/rpc-node.ts";
import { bytes, echo, KEY, NETWORK, SERVICE, serveHttp, startServer, textOf } from "./rpc-support.ts";

const VECTORS = new URL("../../docs/specification/vectors/rpc-tickets.json", import.meta.url);

describe("tickets of a pre-shared key", () => {
  it("open a service that is in no mesh, over UDP and HTTP", async (t) => {
    const { server } = startServer(t, ({ caller, payload }) => bytes(`${caller} ${payload.length}`), {
      idempotent: true,
      stateless: true,
    });
    const udp = (await server.listenUdp({ host: "127.0.0.1", port: 0 })).address;
    const http = await serveHttp(t, (request, origin) => server.fetch(request, origin));
    for (const address of [udp, http]) {
      const caller = "cd".repeat(32);
      const services = { [SERVICE]: { key: KEY, address } };
      const tickets = preSharedKey({ network: NETWORK, services, caller });
      const client = createRpcClient({ tickets, allowPrivate: true });
      t.after(() => client.close());
      for (const idempotent of [true, false]) {
        const answer = await client.call(SERVICE, new Uint8Array(3), { idempotent });
        assert.equal(textOf(answer), `${caller} 3`);
        assert.equal(answer.server, address);
      }
    }
  });

  it("open a service of a closed network, and of no other one", async (t) => {
    const longest = "n".repeat(63);
    const network = `${longest}@${"a5".repeat(32)}`;
    const { server } = startServer(t, echo, { network, idempotent: true, stateless: true });
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    const call = (name: string): Promise<unknown> => {
      const tickets = preSharedKey({ network: name, services: { [SERVICE]: { key: KEY, address } } });
      const client = createRpcClient({ tickets, allowPrivate: true });
      t.after(() => client.close());
      return client.call(SERVICE, bytes("ping"), { idempotent: true, timeout_ms: 500 });
    };
    await call(network);
    for (const other of [longest, `${longest}@${"a6".repeat(32)}`])
      await assert.rejects(call(other), { name: "TimedOut" });
  });

  it("are of the keys of the vectors", async () => {
    const vectors = JSON.parse(await readFile(VECTORS, "utf8"));
    const [{ secret, key_id }] = vectors.current_and_next;
    const key = Buffer.from(secret, "hex");
    const services = { [vectors.service]: { key, address: "127.0.0.1:7400" } };
    for (const [network, id] of [
      [vectors.network, key_id],
      [vectors.closed.network, vectors.closed.key_id],
    ]) {
      const { grant } = await preSharedKey({ network, services }).ticket(vectors.service);
      assert.equal(Buffer.from(grant.subarray(0, 4)).toString("hex"), id, network);
    }
  });

  it("are of a network that has a name", () => {
    const services = { [SERVICE]: { key: KEY, address: "127.0.0.1:7400" } };
    for (const network of ["", "@", "net@", "net@12", "n".repeat(64), `@${"a5".repeat(32)}`, "net@a@b"])
      assert.throws(() => preSharedKey({ network, services }), { name: "BadConfig" }, network);
  });

  it("are each another one, with another caller unless that is said", async () => {
    const services = { [SERVICE]: { key: KEY, address: "127.0.0.1:7400" } };
    const sources = [1, 2].map(() => preSharedKey({ network: NETWORK, services }));
    const grants: string[] = [];
    for (const source of [...sources, ...sources]) {
      const ticket = await source.ticket(SERVICE);
      grants.push(Buffer.from(ticket.grant).toString("hex"));
    }
    const nonces = grants.map((grant) => grant.slice(8, 56));
    assert.equal(new Set(nonces).size, nonces.length);
    const keys = grants.map((grant) => grant.slice(184, 248));
    assert.equal(new Set(keys).size, keys.length);
  });

  it("open nothing with another key, network or service", async (t) => {
    const { server } = startServer(t, echo, { idempotent: true, stateless: true });
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    const wrong = [
      { network: NETWORK, services: { [SERVICE]: { key: new Uint8Array(32).fill(8), address } } },
      { network: "another", services: { [SERVICE]: { key: KEY, address } } },
      { network: NETWORK, services: { other: { key: KEY, address } } },
    ];
    for (const options of wrong) {
      const [name = ""] = Object.keys(options.services);
      const client = createRpcClient({ tickets: preSharedKey(options), allowPrivate: true });
      t.after(() => client.close());
      const call = client.call(name, bytes("ping"), { idempotent: true, timeout_ms: 500 });
      await assert.rejects(call, { name: "TimedOut", message: /^127\.0\.0\.1:\d+ did not .* key,/ });
    }
  });

  it("are no more once the key is erased", async () => {
    const tickets = preSharedKey({
      network: NETWORK,
      services: { [SERVICE]: { key: KEY, address: "127.0.0.1:1" } },
    });
    await tickets.ticket(SERVICE);
    await assert.rejects(tickets.ticket("other"), { name: "NoProvider" });
    tickets.close();
    await assert.rejects(tickets.ticket(SERVICE), { name: "NoProvider" });
  });

  it("lead to no private address and into no session unless that is possible", async (t) => {
    const services = { [SERVICE]: { key: KEY, address: "127.0.0.1:7400" } };
    const client = createRpcClient({ tickets: preSharedKey({ network: NETWORK, services }) });
    t.after(() => client.close());
    await assert.rejects(client.call(SERVICE, bytes("ping")), { name: "ForbiddenAddress" });
    await assert.rejects(client.call(SERVICE, bytes("ping"), { forwardSecret: true }), { name: "BadConfig" });
  });

  it("are refused what makes none", () => {
    const service = { key: KEY, address: "127.0.0.1:7400" };
    const wrong = [
      { network: "", services: { [SERVICE]: service } },
      { network: NETWORK, services: { "No Name": service } },
      { network: NETWORK, services: { [SERVICE]: { ...service, key: new Uint8Array(31) } } },
      { network: NETWORK, services: { [SERVICE]: { ...service, address: "nowhere" } } },
      { network: NETWORK, services: { [SERVICE]: service }, caller: "ab" },
    ];
    for (const options of wrong) assert.throws(() => preSharedKey(options), MeshError);
    const make = (given: object) => preSharedKey({ network: NETWORK, services: { echo: given as never } });
    assert.throws(() => make({ address: service.address }), /key of echo is a secret of 32 bytes/);
    assert.throws(() => make({ key: KEY }), /is text such as 192\.0\.2\.1:7400/);
    const tickets = preSharedKey({ network: NETWORK, services: { [SERVICE]: service } });
    assert.throws(() => createRpcClient({ tickets, mesh: {} } as never), { name: "BadConfig" });
    assert.throws(() => createRpcClient({} as never), { name: "BadConfig" });
  });
});
