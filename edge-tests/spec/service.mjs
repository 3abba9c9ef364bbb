/**
 * A node of the test in Node: a member of the ring that serves names. It is told what to do by the one line that its
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
const address = `127.0.0.1:${task.port}`;
const mesh = await join({
  network: task.network,
  storage: memory(),
  bootstrap: task.bootstrap,
  address: [`ws://${address}/.mesh`, `http://${address}/.mesh`],
  listen: { port: task.port, hostname: "127.0.0.1" },
  allowPrivate: true,
  ownerSeed: task.ownerSeed,
});
for (const name of task.names) {
  await mesh.serve(name, answer, { unowned: name.startsWith("free") });
}
process.stdout.write(`${JSON.stringify({ id: mesh.id, owner: mesh.ownerKey })}\n`);
await input.next();
await mesh.close();
process.exit();
