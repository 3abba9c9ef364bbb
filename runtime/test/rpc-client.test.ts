import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createRpcClient, createRpcServer, rpcModule } from "../src/entries/rpc-node.ts";
import { checkPermitted, parseAddress } from "../src/rpc/address.ts";
import { RpcClient, type RpcMesh } from "../src/rpc/client.ts";
import { addressOf, endpointOf, ipPortOf, textOfIpPort } from "../src/rpc/endpoint.ts";
import { MAX_MESSAGE } from "../src/rpc/limits.ts";
import { decodeTicket, encodeTicket, IN_SESSION } from "../src/rpc/ticket.ts";
import {
  CALLER,
  KEY,
  NETWORK,
  SERVICE,
  serveHttp,
  startClient,
  startServer,
  TestMesh,
  ticketMesh,
} from "./rpc-support.ts";
import { freeUdpPort, member } from "./support.ts";

describe("addresses of servers", () => {
  it("return from endpoints", () => {
    for (const text of ["192.0.2.1:7400", "[2001:db8::1]:1", "[::1]:65535"]) {
      const place = ipPortOf(text) ?? assert.fail(text);
      assert.equal(textOfIpPort(addressOf(endpointOf(place))), text);
    }
    for (const text of [
      "192.0.2.1",
      "192.0.2.1:0",
      "192.0.2.1:65536",
      "name:1",
      "::1:7",
      "[192.0.2.1]:7",
      "[::1]",
    ]) {
      assert.equal(ipPortOf(text), undefined, text);
    }
  });

  it("that lead inside are refused unless private ones are allowed", () => {
    const refused = [
      ...["127.0.0.1:1", "10.0.0.1:1", "169.254.169.254:80", "[::1]:1", "[::ffff:10.0.0.1]:1"],
      ...[
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://localhost/",
        "https://a.localhost/",
        "http://example.com/",
      ],
      ...["https://0x7f.1/", "https://2130706433/", "https://printer.local/"],
      ...["wss://127.0.0.1/", "wss://[::1]/", "wss://localhost/", "ws://example.com/"],
    ];
    for (const text of refused) {
      assert.throws(() => checkPermitted(parseAddress(text), false), { name: "ForbiddenAddress" }, text);
      checkPermitted(parseAddress(text), true);
    }
    for (const text of ["1.1.1.1:1", "https://example.com/rpc", "https://1.1.1.1/", "wss://example.com/rpc"])
      checkPermitted(parseAddress(text), false);
    for (const text of [
      "",
      "ftp://example.com/",
      "https://user@example.com/",
      "wss://user@example.com/",
      "name",
      "wss://",
      "0.0.0.0:7400",
      "[::]:7400",
    ]) {
      assert.throws(() => parseAddress(text), { name: "BadAddress" }, text);
    }
  });
});

describe("tickets", () => {
  const grant = new Uint8Array(128).fill(3);

  it("hold a grant and up to four addresses, of forms that are not known yet, too", () => {
    const longest = `https://echo.example/${"x".repeat(491)}`;
    for (const addresses of [["192.0.2.1:7400"], ["carrier:pigeon", longest, longest, longest]]) {
      assert.deepEqual(decodeTicket(encodeTicket(grant, addresses)), { grant, addresses });
    }
  });

  it("that are malformed are refused", () => {
    const address = "192.0.2.1:7400";
    const whole = encodeTicket(grant, [address]);
    const version = whole.slice();
    version[1] = 1;
    const wrong = [
      whole.slice(0, -1),
      new Uint8Array([...whole, 0]),
      version,
      encodeTicket(grant.slice(1), [address]),
      encodeTicket(grant, []),
      encodeTicket(grant, Array(5).fill(address)),
      encodeTicket(grant, ["x".repeat(513)]),
    ];
    for (const bytes of [...wrong, new Uint8Array()]) {
      assert.throws(() => decodeTicket(bytes), { name: "BadMessage" });
    }
  });

  it("are issued for one to four addresses that are some", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload);
    const address = "192.0.2.1:7400";
    assert.throws(() => server.tickets(), { name: "BadConfig" });
    assert.throws(() => server.tickets(...Array(5).fill(address)), { name: "BadConfig" });
    assert.throws(() => server.tickets(address, "nowhere"), { name: "BadAddress" });
    await assert.rejects(server.issueTicket("ab".repeat(32)), { name: "BadConfig" });
  });
});

describe("a client of the RPC", () => {
  it("gets its ticket from the service in the mesh, as the peer that it is", async (t) => {
    const { server } = startServer(t, ({ caller }) => new TextEncoder().encode(caller));
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    const provider = await member({ network: NETWORK });
    t.after(() => provider.mesh.close());
    const caller = await member({ network: NETWORK, bootstrap: provider.bootstrap });
    t.after(() => caller.mesh.close());
    await provider.mesh.serve(SERVICE, server.tickets(address), { unowned: true });
    const client = createRpcClient({ mesh: caller.mesh, lookup: { unowned: true } });
    t.after(() => client.close());
    const { payload } = await client.call(SERVICE, new Uint8Array());
    assert.equal(new TextDecoder().decode(payload), caller.mesh.id);
    await assert.rejects(client.call("nobody", new Uint8Array()), { name: "NoProvider" });
  });

  it("gets no ticket without a session of the mesh", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload);
    const tickets = server.tickets("192.0.2.1:7400");
    const at = (path: string, method = "POST"): Promise<Response> =>
      tickets(new Request(`https://echo.mesh${path}`, { method }), {
        caller: "ab".repeat(32),
        assurance: "session",
      });
    assert.equal((await at("/.well-known/selfsame-rpc")).status, 403);
    assert.equal((await at("/.well-known/selfsame-rpc", "GET")).status, 405);
    assert.equal((await at("/")).status, 404);
  });

  it("dials no private address unless that is allowed", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload);
    const mesh = new TestMesh(server, "127.0.0.1:7400");
    const client = createRpcClient({ mesh, allowPrivate: false });
    t.after(() => client.close());
    await assert.rejects(client.call(SERVICE, new Uint8Array()), { name: "ForbiddenAddress" });
    await assert.rejects(client.call(SERVICE, new Uint8Array(), { server: "127.0.0.1:7400" }), {
      name: "ForbiddenAddress",
    });
    for (const addresses of [
      ["https://localhost/rpc"],
      ["wss://localhost/rpc"],
      ["10.0.0.1:7400", "https://localhost/rpc"],
    ]) {
      mesh.addresses = addresses;
      await assert.rejects(client.call(SERVICE, new Uint8Array()), { name: "ForbiddenAddress" });
    }
  });

  it("takes the first address of a ticket that it can use", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload);
    const { address } = await server.listenUdp({ host: "127.0.0.1", port: 0 });
    const url = await serveHttp(t, (request, origin) => server.fetch(request, origin));
    const mesh = new TestMesh(server, address, url);
    const withUdp = startClient(t, mesh);
    const socket = (): never => assert.fail("no WebSocket is dialled");
    const platform = { module: rpcModule, udp: undefined, fetch: () => fetch, socket, upgrade: undefined };
    const withoutUdp = new RpcClient({ mesh }, platform);
    t.after(() => withoutUdp.close());
    const serverOf = async (client: RpcClient): Promise<string> =>
      (await client.call(SERVICE, new Uint8Array(1))).server;
    assert.equal(await serverOf(withUdp), address);
    assert.equal(await serverOf(withoutUdp), url);
    const later = (...addresses: string[]): RpcMesh =>
      ticketMesh(async () => {
        const ticket = decodeTicket(await server.issueTicket(CALLER, address));
        assert.ok(ticket !== IN_SESSION);
        return encodeTicket(ticket.grant, addresses);
      });
    assert.equal(await serverOf(startClient(t, later("carrier:pigeon", address))), address);
    await assert.rejects(serverOf(startClient(t, later("carrier:pigeon"))), { name: "BadAddress" });
    const alone = new RpcClient({ mesh: new TestMesh(server, address) }, platform);
    t.after(() => alone.close());
    await assert.rejects(serverOf(alone), { name: "NoRoute" });
  });

  it("finds a service that has moved", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload, { idempotent: true });
    const mesh = new TestMesh(server, `127.0.0.1:${await freeUdpPort()}`);
    const client = startClient(t, mesh);
    const options = { idempotent: true, timeout_ms: 300 };
    await assert.rejects(client.call(SERVICE, new Uint8Array(), options), { name: "TimedOut" });
    mesh.addresses = [(await server.listenUdp({ host: "127.0.0.1", port: 0 })).address];
    assert.equal((await client.call(SERVICE, new Uint8Array(7), options)).payload.length, 7);
  });

  it("says what is wrong with a call", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload);
    const client = startClient(t, new TestMesh(server, "127.0.0.1:7400"));
    await assert.rejects(client.call("No Name", new Uint8Array()), { name: "BadName" });
    await assert.rejects(client.call(SERVICE, new Uint8Array(), { timeout_ms: 0 }), { name: "BadConfig" });
    await assert.rejects(client.call(SERVICE, new Uint8Array(MAX_MESSAGE + 1)), { name: "TooLarge" });
    await assert.rejects(client.call(SERVICE, new Uint8Array(), { server: "nowhere" }), {
      name: "BadAddress",
    });
    await assert.rejects(
      client.call(SERVICE, new Uint8Array(), { signal: AbortSignal.abort(new Error("no")) }),
      { message: "no" },
    );
    client.close();
    await assert.rejects(client.call(SERVICE, new Uint8Array()), { name: "Cancelled" });
  });

  it("fails calls that wait for a ticket when there is none", async (t) => {
    const { server } = startServer(t, ({ payload }) => payload);
    const mesh = new TestMesh(server, "127.0.0.1:7400");
    mesh.fetch = async () => new Response(null, { status: 404 });
    const client = startClient(t, mesh);
    await assert.rejects(client.call(SERVICE, new Uint8Array()), { name: "NoService" });
    await assert.rejects(client.call(SERVICE, new Uint8Array(), { server: "127.0.0.1:7400" }), {
      name: "NoProvider",
    });
  });
});

describe("a server of the RPC", () => {
  it("says what is wrong with its options", () => {
    const options = { network: NETWORK, service: SERVICE, ticketKey: KEY, handler: () => new Uint8Array() };
    const wrong = [
      { ...options, service: "No Name" },
      { ...options, network: "" },
      { ...options, ticketKey: new Uint8Array(31) },
      { ...options, stateless: true },
      { ...options, ticketLife_s: 0 },
      { ...options, handler: undefined as never },
    ];
    for (const one of wrong) assert.throws(() => createRpcServer(one), { class: "Usage" });
  });
});
