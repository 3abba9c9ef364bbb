import assert from "node:assert/strict";
import { once } from "node:events";
import type { Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { after, before, describe, test } from "node:test";
import { serve } from "../src/entries/node.ts";
import { until } from "./support.ts";

/** More than the buffers between a server and a client that reads nothing. */
const CHUNK = new Uint8Array(1024 * 1024);

/** An answer whose body is not there yet. */
function silent(headers: Record<string, string>): Response {
  return new Response(new ReadableStream({}), { headers });
}

describe("answers of a server of the package", () => {
  let server: Server;
  let url: string;
  /** Bodies that were given up. */
  const cancelled: string[] = [];
  /** Lets the handler of `/late` answer. */
  const late = Promise.withResolvers<void>();

  before(async () => {
    const fetch = async (request: Request): Promise<Response> => {
      const { pathname } = new URL(request.url);
      if (pathname === "/late") await late.promise;
      if (pathname === "/trailer") return silent({ "content-length": "5", trailer: "x" });
      if (pathname === "/short") return new Response("abc", { headers: { "content-length": "20" } });
      if (pathname === "/long") return new Response("abc", { headers: { "content-length": "1" } });
      let pulled = 0;
      const pull = (controller: ReadableStreamDefaultController): void => {
        if (pathname === "/endless") controller.enqueue(CHUNK);
        else if (pathname === "/fails" && pulled++ === 0) controller.enqueue(new Uint8Array(3));
        else if (pathname === "/fails") controller.error(new Error("no more"));
      };
      return new Response(new ReadableStream({ pull, cancel: () => void cancelled.push(pathname) }));
    };
    server = await serve({ fetch, hostname: "127.0.0.1" });
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => {
    server.close();
    server.closeAllConnections();
  });

  async function ask(path: string): Promise<Socket> {
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    await once(socket, "connect");
    socket.write(`GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`);
    return socket;
  }

  for (const path of ["/endless", "/silent"]) {
    test(`end with their client: ${path}`, async () => {
      const socket = await ask(path);
      // The head comes although the body is silent.
      await once(socket, "data");
      socket.pause();
      socket.destroy();
      await until("the body is given up", () => cancelled.includes(path));
    });
  }

  test("end at once if their client has left before", async () => {
    const arrived = once(server, "request");
    const socket = await ask("/late");
    const [, outgoing] = await arrived;
    socket.destroy();
    await once(outgoing, "close");
    late.resolve();
    await until("the body is given up", () => cancelled.includes("/late"));
  });

  test("are 500 if their head is one that cannot be sent, and end nothing", async () => {
    const socket = await ask("/trailer");
    const [answer] = await once(socket, "data");
    assert.match(`${answer}`, /^HTTP\/1\.1 500 /);
    assert.equal((await globalThis.fetch(`${url}/fails`)).status, 200);
  });

  for (const path of ["/short", "/long"]) {
    test(`are cut off if their body has another length than they say: ${path}`, async () => {
      const socket = await ask(path);
      socket.resume();
      await once(socket, "close");
    });
  }

  test("break off after what came before their body failed", async () => {
    const response = await globalThis.fetch(`${url}/fails`);
    assert.equal(response.status, 200);
    const reader = response.body?.getReader();
    assert.equal((await reader?.read())?.value?.length, 3);
    await assert.rejects(async () => reader?.read());
  });
});
