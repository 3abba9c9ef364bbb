/**
 * Replicas of the encrypted RPC in Node, of one service over UDP and of one over HTTP, and the server that carries out the calls of the Rust
 * host's replica. It is told what to do by the one line that its parent writes, prints a line when all of them are found, and ends with its
 * standard input.
 */

import { randomBytes } from "node:crypto";
import process from "node:process";
import { createInterface } from "node:readline";

import { join, memory, serve } from "selfsame/node";
import { createRpcServer } from "selfsame/rpc";

/** @typedef {{ network: string, bootstrap: string[], port: number, ticketLife_s: number }} Task */

/** So long that it takes more packets than a first congestion window has. */
const LARGE_BYTES = 300_000;

let carriedOut = 0;

/** @param {Uint8Array} payload @param {string} caller @returns {Uint8Array} */
function answer(payload, caller) {
  const text = new TextDecoder().decode(payload.subarray(0, 16));
  if (text === "who") return new TextEncoder().encode(caller);
  if (text === "large") return new Uint8Array(LARGE_BYTES).map((_, at) => at % 251);
  if (text === "count") return new TextEncoder().encode(String(++carriedOut));
  if (text === "fail") throw new Error("as it was asked to");
  return payload;
}

const input = createInterface(process.stdin)[Symbol.asyncIterator]();
const { value = "" } = await input.next();
/** @type {Task} */
const task = JSON.parse(value);

/** @param {string} service @param {boolean} idempotent */
function replica(service, idempotent) {
  /** @type {import("selfsame/rpc").RpcServer} */
  const server = createRpcServer({
    service,
    network: task.network,
    ticketKey: randomBytes(32),
    ticketLife_s: task.ticketLife_s,
    idempotent,
    log: () => {},
    handler: async ({ payload, caller }) => {
      if (new TextDecoder().decode(payload) === "replace the key") await server.setTicketKey(randomBytes(32));
      return answer(payload, caller);
    },
  });
  return server;
}

const overUdp = replica("rpc-node", true);
const overHttp = replica("rpc-http", true);
const onlyBound = replica("rpc-bound", false);
const place = { host: "127.0.0.1", port: 0 };

await serve({
  hostname: "127.0.0.1",
  port: task.port,
  fetch: async (request, info) => {
    if (new URL(request.url).pathname === "/rpc") return overHttp.fetch(request, info);
    const payload = new Uint8Array(await request.arrayBuffer());
    try {
      return new Response(answer(payload, request.headers.get("selfsame-caller") ?? "").slice());
    } catch {
      return new Response(null, { status: 500 });
    }
  },
});
const mesh = await join({
  network: task.network,
  storage: memory(),
  bootstrap: task.bootstrap,
  allowPrivate: true,
});
await mesh.serve("rpc-node", overUdp.tickets((await overUdp.listenUdp(place)).address), { unowned: true });
await mesh.serve("rpc-bound", onlyBound.tickets((await onlyBound.listenUdp(place)).address), {
  unowned: true,
});
await mesh.serve("rpc-http", overHttp.tickets(`http://127.0.0.1:${task.port}/rpc`), { unowned: true });
process.stdout.write(`${JSON.stringify({ id: mesh.id })}\n`);
await input.next();
await mesh.close();
process.exit();
