/**
 * A node of the test in Node that serves names: a member of the ring, or a leaf without a port. It is told what to do by the one line that its
 * parent writes, prints its id, address and owner as one line, and ends with its standard input.
 */

import process from "node:process";
import { createInterface } from "node:readline";

import { join, memory } from "selfsame/node";

/** @typedef {{ network: string, port: number, bootstrap: string[], ownerSeed: string, names: string[] }} Task */

const MIB = 1024 * 1024;

/**
 * @param {Request} request
 * @param {{ caller: string }} context
 * @returns {Promise<Response>}
 */
async function answer(request, { caller }) {
  const { pathname } = new URL(request.url);
  if (pathname === "/fails") throw new Error("as it was asked to");
  if (pathname === "/empty") return new Response(null, { status: 204 });
  if (pathname === "/large") return new Response(new Uint8Array(MIB).fill(7));
  const body = await request.text();
  const headers = {
    "x-caller": caller,
    "x-method": request.method,
    "x-header": request.headers.get("x-sent") ?? "",
  };
  return new Response(`${pathname}:${body}`, { status: 201, headers });
}

const input = createInterface(process.stdin)[Symbol.asyncIterator]();
const { value = "" } = await input.next();
/** @type {Task} */
const task = JSON.parse(value);
const hostname = "127.0.0.1";
const at = (/** @type {string} */ scheme) => `${scheme}://${hostname}:${task.port}/.mesh`;
const member = { address: [at("ws"), at("http")], listen: { port: task.port, hostname } };
const mesh = await join({
  network: task.network,
  storage: memory(),
  bootstrap: task.bootstrap,
  allowPrivate: true,
  ownerSeed: task.ownerSeed,
  ...(task.port === 0 ? {} : member),
});
for (const name of task.names) {
  await mesh.serve(name, answer, { unowned: name.startsWith("free") });
}
process.stdout.write(`${JSON.stringify({ id: mesh.id, owner: mesh.ownerKey })}\n`);
await input.next();
await mesh.close();
process.exit();
