import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { z } from "zod";
import { toBase64Url } from "../src/codec/hex.ts";
import type { LogRecord } from "../src/driver/log.ts";
import type { NodeMesh } from "../src/entries/node.ts";
import {
  createRpcClient,
  implement,
  procedure,
  procedures,
  type RpcClient,
  type RpcHandler,
  type RpcMesh,
  RpcRefusal,
  rpcInSession,
  typed,
} from "../src/entries/rpc-node.ts";
import type { RpcServer, RpcServerOptions } from "../src/rpc/server.ts";
import { encodeInSession, encodeTicket } from "../src/rpc/ticket.ts";
import {
  bytes,
  CALLER,
  echo,
  NETWORK,
  pair,
  SERVICE,
  serveHttp,
  startServer,
  TestMesh,
  textOf,
} from "./rpc-support.ts";
import { member } from "./support.ts";

const CALL_PATH = "/.well-known/selfsame-rpc/call";
const TICKET_PATH = "/.well-known/selfsame-rpc";
const FIELD = "selfsame-rpc-ticket";
const UNOWNED = { unowned: true };
/** What an isolate is: it takes early data at once. */
const EARLY = { idempotent: true, stateless: true };
const IN_SESSION = `https://${SERVICE}.mesh`;

/** A mesh that notes the requests of a client, as path and whether a ticket is taken. */
class NotingMesh implements RpcMesh {
  readonly allowPrivate: boolean = true;
  readonly requests: string[] = [];
  readonly #mesh: Pick<RpcMesh, "fetch">;

  constructor(mesh: Pick<RpcMesh, "fetch">) {
    this.#mesh = mesh;
  }

  fetch: RpcMesh["fetch"] = (input, init) => {
    const { pathname } = new URL(`${input}`);
    this.requests.push(new Headers(init?.headers).has(FIELD) ? `${pathname} with a ticket` : pathname);
    return this.#mesh.fetch(input, init);
  };
}

interface Started {
  readonly client: RpcClient;
  readonly mesh: NotingMesh;
  readonly provider: NodeMesh;
  readonly server: RpcServer;
  readonly url: string;
  /** How many datagrams the server got. */
  readonly datagrams: () => number;
}

/** Who serves calls and their tickets in a mesh, and a client there. */
async function start(
  t: TestContext,
  handler: RpcHandler,
  options: Partial<RpcServerOptions> = {},
): Promise<Started> {
  const { server } = startServer(t, handler, options);
  let datagrams = 0;
  const url = await serveHttp(t, (request, origin) => {
    datagrams++;
    return server.fetch(request, origin);
  });
  const { provider, caller } = await pair(t);
  await provider.serve(SERVICE, server.tickets(url), UNOWNED);
  const mesh = new NotingMesh(caller);
  return { client: clientOf(t, mesh).client, mesh, provider, server, url, datagrams: () => datagrams };
}

function clientOf(t: TestContext, mesh: RpcMesh): { client: RpcClient; records: LogRecord[] } {
  const records: LogRecord[] = [];
  const client = createRpcClient({ mesh, lookup: UNOWNED, log: (record) => records.push(record) });
  t.after(() => client.close());
  return { client, records };
}

describe("the first call of a service", () => {
  for (const idempotent of [true, false]) {
    it(`that is ${idempotent ? "" : "not "}idempotent brings the ticket of the others`, async (t) => {
      const { client, mesh, url, datagrams } = await start(t, echo, EARLY);
      const first = await client.call(SERVICE, bytes("first"), { idempotent });
      assert.deepEqual([textOf(first), first.server, datagrams()], ["first", IN_SESSION, 0]);
      assert.ok(!("ticket" in first), "it is the client's alone");
      const second = await client.call(SERVICE, bytes("second"), { idempotent });
      assert.deepEqual([textOf(second), second.server], ["second", url]);
      assert.equal(datagrams(), idempotent ? 1 : 2);
      assert.deepEqual(mesh.requests, [`${CALL_PATH} with a ticket`]);
    });
  }

  it("brings a ticket whose age counts until it is used", async (t) => {
    const { client, datagrams } = await start(t, echo, EARLY);
    await client.call(SERVICE, bytes("first"), { idempotent: true });
    const { now } = Date;
    t.mock.method(Date, "now", () => now() + 60_000);
    await client.call(SERVICE, bytes("later"), { idempotent: true });
    assert.equal(datagrams(), 1, "early data that is sent within seconds of its time");
  });

  it("keeps no other one waiting, and one of them brings the ticket", async (t) => {
    const all = Promise.withResolvers<void>();
    let begun = 0;
    const handler: RpcHandler = async ({ payload }) => {
      if (++begun === 5) all.resolve();
      await all.promise;
      return payload;
    };
    const { client, mesh, url } = await start(t, handler, EARLY);
    const calls = Array.from({ length: 5 }, (_, at) => client.call(SERVICE, bytes(`${at}`)));
    assert.deepEqual((await Promise.all(calls)).map(textOf), ["0", "1", "2", "3", "4"]);
    assert.deepEqual(mesh.requests, [`${CALL_PATH} with a ticket`, ...Array(4).fill(CALL_PATH)]);
    assert.equal((await client.call(SERVICE, bytes("6"))).server, url);
  });

  it("lets another one bring the ticket when it takes long", async (t) => {
    const end = Promise.withResolvers<void>();
    const handler: RpcHandler = async ({ payload }) => {
      if (textOf({ payload }) === "slow") await end.promise;
      return payload;
    };
    const { client, mesh, url } = await start(t, handler, EARLY);
    const slow = client.call(SERVICE, bytes("slow"));
    await client.call(SERVICE, bytes("at once"));
    const now = performance.now.bind(performance);
    t.mock.method(performance, "now", () => now() + 1500);
    await client.call(SERVICE, bytes("later"));
    assert.equal((await client.call(SERVICE, bytes("by ticket"))).server, url);
    end.resolve();
    assert.equal((await slow).server, IN_SESSION);
    const bringing = `${CALL_PATH} with a ticket`;
    assert.deepEqual(mesh.requests, [bringing, CALL_PATH, bringing]);
  });

  it("is answered with many others at once", async (t) => {
    const { client } = await start(t, echo, EARLY);
    const calls = Array.from({ length: 500 }, (_, at) => client.call(SERVICE, bytes(`${at}`)));
    for (const [at, answer] of (await Promise.all(calls)).entries()) assert.equal(textOf(answer), `${at}`);
  });

  it("is carried out once though its provider is lost", async (t) => {
    const { provider, caller, bootstrap } = await pair(t);
    const { mesh: other } = await member({ network: NETWORK, bootstrap });
    t.after(() => other.close());
    const lost = Promise.withResolvers<NodeMesh>();
    let calls = 0;
    for (const mesh of [provider, other]) {
      const handler: RpcHandler = () => {
        calls++;
        lost.resolve(mesh);
        return new Promise(() => undefined);
      };
      await mesh.serve(SERVICE, startServer(t, handler, EARLY).server.tickets("192.0.2.1:7400"), UNOWNED);
    }
    const { client } = clientOf(t, caller);
    const outcome = client.call(SERVICE, bytes("x"), { timeout_ms: 20_000 }).then(textOf, ({ name }) => name);
    await (await lost.promise).close();
    assert.deepEqual([await outcome, calls], ["OutcomeUnknown", 1]);
  });

  it("brings no ticket when it is refused, and the next one does", async (t) => {
    const handler: RpcHandler = ({ payload }) => {
      if (payload.length === 0) throw new RpcRefusal("NotGranted");
      return payload;
    };
    const { client, mesh, url } = await start(t, handler, EARLY);
    await assert.rejects(client.call(SERVICE, bytes("")), { name: "NotGranted" });
    assert.equal((await client.call(SERVICE, bytes("x"))).server, IN_SESSION);
    assert.equal((await client.call(SERVICE, bytes("x"))).server, url);
    assert.deepEqual(mesh.requests, Array(2).fill(`${CALL_PATH} with a ticket`));
  });

  it("goes on in sessions where the service gives out no tickets", async (t) => {
    const { provider, caller } = await pair(t);
    await provider.serve(SERVICE, rpcInSession({ handler: echo }), UNOWNED);
    const mesh = new NotingMesh(caller);
    const { client } = clientOf(t, mesh);
    for (const text of ["a", "b"]) {
      const answer = await client.call(SERVICE, bytes(text));
      assert.deepEqual([textOf(answer), answer.server], [text, IN_SESSION]);
    }
    assert.deepEqual(mesh.requests, Array(2).fill(`${CALL_PATH} with a ticket`));
  });

  it("asks for a ticket before, where the answer is to name its replica", async (t) => {
    const contract = procedures({ count: procedure({ input: z.number(), stream: z.number() }) });
    const handler = implement(contract, {
      count: async function* (to: number) {
        for (let at = 0; at < to; at++) yield at;
      },
    });
    t.after(() => handler[Symbol.dispose]());
    const { client, mesh } = await start(t, handler, { idempotent: true });
    const items: number[] = [];
    for await (const item of typed(client, SERVICE, contract).count(3000)) items.push(item);
    assert.equal(items.length, 3000, "more than one batch");
    assert.deepEqual(mesh.requests, [TICKET_PATH]);
  });

  it("asks for a ticket before, where a replica is named", async (t) => {
    const { client, mesh, url } = await start(t, echo, EARLY);
    assert.equal((await client.call(SERVICE, bytes("x"), { server: url })).server, url);
    assert.deepEqual(mesh.requests, [TICKET_PATH]);
  });

  for (const status of [404, 405, 503]) {
    it(`asks a provider for a ticket that answers ${status}`, async (t) => {
      const { server } = startServer(t, echo, EARLY);
      const url = await serveHttp(t, (request, origin) => server.fetch(request, origin));
      const tickets = new TestMesh(server, url);
      const mesh = new NotingMesh({
        fetch: async (input, init) =>
          `${input}`.endsWith(CALL_PATH) ? new Response(null, { status }) : tickets.fetch(input, init),
      });
      const { client } = clientOf(t, mesh);
      const calls = Array.from({ length: 3 }, () => client.call(SERVICE, bytes("x")));
      for (const { server } of await Promise.all(calls)) assert.equal(server, url);
      assert.deepEqual(mesh.requests, [`${CALL_PATH} with a ticket`, CALL_PATH, CALL_PATH, TICKET_PATH]);
    });
  }
});

describe("a server that is told who calls", () => {
  it("answers calls and brings tickets", async (t) => {
    const { server } = startServer(t, ({ caller }) => bytes(caller), EARLY);
    const url = await serveHttp(t, (request, origin) => server.fetch(request, origin));
    const { client } = clientOf(t, {
      allowPrivate: true,
      fetch: (input, init) => server.answerPeer(new Request(`${input}`, init), CALLER, url),
    });
    for (const named of [IN_SESSION, url]) {
      const answer = await client.call(SERVICE, bytes("x"), { idempotent: true });
      assert.deepEqual([textOf(answer), answer.server], [CALLER, named]);
    }
    const at = (path: string): Promise<Response> => server.answerPeer(new Request(url + path), CALLER, url);
    assert.equal((await at("/elsewhere")).status, 404);
    await assert.rejects(server.answerPeer(new Request(url), "nobody", url), { name: "BadConfig" });
    await assert.rejects(server.answerPeer(new Request(url), CALLER), { name: "BadConfig" });
    server.close();
    assert.equal((await at("/")).status, 503);
  });
});

describe("a first call in front of a service that lies", () => {
  const grant = new Uint8Array(128).fill(3);
  const fieldOf = (...addresses: string[]): string => toBase64Url(encodeTicket(grant, addresses));

  /** A mesh whose provider adds a field to each answer. */
  function lying(field: string): NotingMesh {
    const headers = { "content-type": "application/octet-stream", [FIELD]: field };
    return new NotingMesh({ fetch: async () => new Response("answered", { headers }) });
  }

  const malformed: readonly [string, string][] = [
    ["nothing", ""],
    ["no base64url", "a+b/"],
    ["two tickets", `${fieldOf("192.0.2.1:7400")}, ${fieldOf("192.0.2.1:7400")}`],
    ["half a ticket", fieldOf("192.0.2.1:7400").slice(0, 100)],
    ["a ticket that is too long", "A".repeat(2940)],
    ["a ticket without an address", fieldOf()],
  ];
  for (const [what, field] of malformed) {
    it(`is answered, and takes no notice of ${what}`, async (t) => {
      const mesh = lying(field);
      const { client, records } = clientOf(t, mesh);
      for (const _ of "ab") assert.equal(textOf(await client.call(SERVICE, bytes("x"))), "answered");
      assert.deepEqual(mesh.requests, Array(2).fill(`${CALL_PATH} with a ticket`));
      const told = records.map(({ text }) => text);
      assert.equal(told.filter((text) => text.includes("is no ticket")).length, 2);
      assert.ok(field === "" || told.every((text) => !text.includes(field)), "it may be a secret");
    });
  }

  it("goes on in sessions when it cannot use the ticket", async (t) => {
    for (const field of [fieldOf("10.0.0.1:7400", "http://localhost/rpc"), fieldOf("carrier:pigeon")]) {
      const { fetch, requests } = lying(field);
      const client = createRpcClient({ mesh: { fetch, allowPrivate: false }, log: () => undefined });
      t.after(() => client.close());
      for (const _ of "abc") assert.equal(textOf(await client.call(SERVICE, bytes("x"))), "answered");
      assert.deepEqual(requests, [`${CALL_PATH} with a ticket`, CALL_PATH, CALL_PATH]);
    }
  });

  it("goes on in sessions when it is told that there are no tickets", async (t) => {
    const mesh = lying(toBase64Url(encodeInSession()));
    const { client } = clientOf(t, mesh);
    for (const _ of "ab") assert.equal(textOf(await client.call(SERVICE, bytes("x"))), "answered");
    assert.deepEqual(mesh.requests, [`${CALL_PATH} with a ticket`, CALL_PATH]);
  });

  it("gets another ticket in place of one of another service", async (t) => {
    const { server: other } = startServer(t, echo, { ...EARLY, service: "other" });
    const { server } = startServer(t, echo, EARLY);
    const url = await serveHttp(t, (request, origin) => server.fetch(request, origin));
    const field = toBase64Url(await other.issueTicket(CALLER, url));
    const [liar, honest] = [lying(field), new TestMesh(server, url)];
    const { client } = clientOf(t, {
      allowPrivate: true,
      fetch: (input, init) => (`${input}`.endsWith(CALL_PATH) ? liar : honest).fetch(input, init),
    });
    assert.equal(textOf(await client.call(SERVICE, bytes("x"))), "answered");
    const second = await client.call(SERVICE, bytes("x"), { idempotent: true });
    assert.deepEqual([textOf(second), second.server, honest.asked], ["x", url, 1]);
  });
});
