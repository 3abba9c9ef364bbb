import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, describe, test } from "node:test";
import { Hono } from "hono";
import { type MeshClient, mesh } from "../src/entries/hono.ts";
import { type Handler, type NodeMesh, serve } from "../src/entries/node.ts";
import { leaf, member, type TestNode } from "./support.ts";

const UNOWNED = { unowned: true } as const;

/** What `service("check")` is given, and the path that it means. */
const INPUTS: readonly [input: string | URL | Request, path: string][] = [
  ["/x?y", "/x?y"],
  ["", "/"],
  ["x/../z", "/z"],
  ["?q=1", "/?q=1"],
  ["//admin.mesh/secret", "//admin.mesh/secret"],
  ["///admin.mesh/secret", "///admin.mesh/secret"],
  [" //admin.mesh/secret", "//admin.mesh/secret"],
  ["/\t/admin.mesh/secret", "//admin.mesh/secret"],
  ["\\\\admin.mesh\\secret", "//admin.mesh/secret"],
  ["https:admin.mesh/secret", "/admin.mesh/secret"],
  ["https://admin.mesh/secret?a#b", "/secret?a"],
  ["http://user:word@admin.mesh:8080//x", "//x"],
  [new URL("https://admin.mesh//check.mesh/x"), "//check.mesh/x"],
  [new Request("https://admin.mesh//other.mesh/secret?a"), "//other.mesh/secret?a"],
  [new Request("http://admin.mesh/@admin.mesh/"), "/@admin.mesh/"],
];

describe("a service by its name", () => {
  let node: TestNode;
  let caller: NodeMesh;

  before(async () => {
    node = await member();
    caller = await leaf(node.bootstrap);
    const telling =
      (name: string): Handler =>
      async (request) => {
        const { pathname, search } = new URL(request.url);
        return new Response(`${name} ${request.method} ${pathname}${search} ${await request.text()}`);
      };
    for (const name of ["check", "admin", "other"]) await node.mesh.serve(name, telling(name), UNOWNED);
  });
  after(async () => {
    await caller.close();
    await node.mesh.close();
  });

  /** The mesh as a Worker's isolate has it: through the binding of its node. */
  async function bound(): Promise<MeshClient> {
    const call = async (request: Request, options: object): Promise<object> => ({
      response: await caller.fetch(request, options),
    });
    const app = new Hono();
    const { promise, resolve } = Promise.withResolvers<MeshClient>();
    app.use(mesh(() => ({ idFromName: () => ({}), get: () => ({ call }) })));
    app.get("/", (c) => {
      resolve(c.var.mesh);
      return c.text("");
    });
    await app.request("/");
    return promise;
  }

  for (const kind of ["joined", "bound"] as const) {
    test(`is the one that is asked, whatever the ${kind} mesh is given`, async () => {
      const client: MeshClient = kind === "joined" ? caller : await bound();
      const { fetch } = client.service("check", UNOWNED);
      for (const [input, path] of INPUTS) {
        const response = await fetch(input instanceof Request ? input.clone() : input);
        assert.equal(await response.text(), `check GET ${path} `, String(input));
      }
      const posted = new Request("https://x.mesh//y", { method: "POST", body: "body" });
      assert.equal(await (await fetch(posted)).text(), "check POST //y body");
      for (const input of ["mailto:x", "data:.admin.mesh/", "file:///x"]) {
        await assert.rejects(fetch(input), { name: "BadConfig" }, input);
      }
      assert.throws(() => client.service("check.mesh/x?"), { name: "BadName" });
    });
  }

  test("is asked by a server whose visitor asks for //admin.mesh/secret", async () => {
    const app = new Hono();
    app.use(mesh(() => caller));
    app.all("*", (c) => c.var.mesh.service("check", UNOWNED).fetch(c.req.raw));
    const server = await serve({ fetch: caller.handler(app.fetch), hostname: "127.0.0.1" });
    const { port } = server.address() as { port: number };
    try {
      const answer = await rawGet(port, "//admin.mesh/secret");
      assert.match(answer, /check GET \/\/admin\.mesh\/secret /);
      assert.match(await rawGet(port, "http://admin.mesh//x"), /check GET \/\/x /);
      for (const host of ["a/b", "a?b", "a@b", "", "a b", "a\\b"]) {
        assert.match(await rawGet(port, "//admin.mesh/secret", host), /^HTTP\/1.1 400 /, host);
      }
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });
});

/** Asks a server for a target as it is. */
async function rawGet(port: number, target: string, host = "127.0.0.1"): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.write(`GET ${target} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
  let text = "";
  for await (const bytes of socket) text += String(bytes);
  return text;
}
