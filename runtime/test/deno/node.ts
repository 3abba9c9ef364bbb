// Run by test/deno.test.ts under Deno: a member that serves `deno` and calls `node` when it is asked to.
import { join, serve, sqlite } from "../../src/entries/deno.ts";

const [port = "0", tcp = "", udp = "", data = "", bootstrap = ""] = process.argv.slice(2);
const mesh = await join({
  network: "test",
  storage: sqlite(data),
  address: [tcp, udp, `ws://127.0.0.1:${port}/.mesh`],
  listen: [tcp, udp],
  bootstrap,
  allowPrivate: true,
});
const server = serve({
  fetch: mesh.handler(() => new Response("the app")),
  port: Number(port),
  hostname: "127.0.0.1",
});
await mesh.serve(
  "deno",
  async (_, { caller }) => {
    const response = await mesh.fetch("https://node.mesh/", { method: "POST", body: caller, unowned: true });
    return new Response(`deno, then ${await response.text()}`);
  },
  { unowned: true },
);
console.log(JSON.stringify({ id: mesh.id, port: server.addr.port }));
