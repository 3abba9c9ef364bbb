import assert from "node:assert/strict";
import dns from "node:dns/promises";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import { type AddressInfo, isIPv6, type Socket } from "node:net";
import { describe, type TestContext, test } from "node:test";
import type { Dialler } from "../src/driver/paths.ts";
import { checkedDiallers } from "../src/transports/checked-dial.ts";
import { TrustedProxies } from "../src/transports/forwarded.ts";
import { joinFrames } from "../src/transports/frames.ts";
import { acceptSockets } from "../src/transports/node.ts";
import type { DialOptions } from "../src/transports/place.ts";
import { SchemeDialler } from "../src/transports/websocket.ts";
import { Host, until } from "./support.ts";

const SCHEMES = ["ws", "http"] as const;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A server that accepts sockets, answers each POST with a frame, and keeps who connected and what was asked. */
async function server(t: TestContext, answer?: { status: number; location: string }) {
  const accepting = new Host();
  const asked: string[] = [];
  let connections = 0;
  const listening = createServer((request, response) => {
    asked.push(`${request.method} ${request.headers.host}${request.url}`);
    request.resume().on("end", () => {
      if (answer !== undefined) response.writeHead(answer.status, { location: answer.location }).end();
      else response.writeHead(200).end(joinFrames([bytes("answer")]));
    });
  });
  listening.on("connection", () => connections++);
  if (answer === undefined) acceptSockets(listening, accepting, new TrustedProxies());
  else {
    listening.on("upgrade", (_, socket) => {
      const { status, location } = answer;
      socket.end(`HTTP/1.1 ${status} Elsewhere\r\nlocation: ${location}\r\ncontent-length: 0\r\n\r\n`);
    });
  }
  const port = await listen(listening);
  // As servers do that mean to keep those who dial them.
  listening.keepAliveTimeout = 0;
  t.after(() => {
    listening.closeAllConnections();
    listening.close();
  });
  return { listening, port, asked, accepting, connections: () => connections };
}

async function listen(listening: Server): Promise<number> {
  listening.listen(0, "127.0.0.1");
  await once(listening, "listening");
  return (listening.address() as AddressInfo).port;
}

function dialler(options: DialOptions): Dialler {
  return new SchemeDialler(checkedDiallers(options));
}

/** Lets a name lead where the second argument says, the first time that it is looked up, and nowhere later. */
function nameOnce(t: TestContext, name: string, address: string): void {
  let isFirst = true;
  const found = { address, family: isIPv6(address) ? 6 : 4 };
  t.mock.method(dns, "lookup", (async (host: string) => {
    assert.equal(host, name);
    assert.ok(isFirst, "a name is looked up once");
    isFirst = false;
    return [found];
  }) as unknown as typeof dns.lookup);
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
}

describe("a dialler of WebSocket and HTTP", () => {
  for (const scheme of SCHEMES) {
    test(`${scheme} connects to no private address unless that is meant`, async (t) => {
      const { port, connections } = await server(t);
      for (const name of ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost", "2130706433"]) {
        const host = new Host();
        dialler({}).dial(1, `${scheme}://${name}:${port}/`, host);
        await until("the dial failed", () => host.failures.length === 1);
        assert.match(host.failures[0] ?? "", /a private address/);
      }
      assert.equal(connections(), 0);
      const url = `${scheme}://127.0.0.1:${port}/`;
      for (const options of [{ allowPrivate: true }, { bootstrap: [`${url}#id`, "none"] }]) {
        const host = new Host();
        dialler(options).dial(1, url, host);
        await until("the path is open", () => host.links.length === 1);
        host.links[0]?.abort?.(1000, "");
      }
    });

    test(`${scheme} refuses a public name that leads inside`, async (t) => {
      const { port, connections } = await server(t);
      nameOnce(t, "inside.example", "127.0.0.1");
      const host = new Host();
      dialler({}).dial(1, `${scheme}://inside.example:${port}/`, host);
      await until("the dial failed", () => host.failures.length === 1);
      assert.match(host.failures[0] ?? "", /a private address/);
      assert.equal(connections(), 0);
    });

    test(`${scheme} connects to the address that was checked, wherever its name leads later`, async (t) => {
      const { port, asked, accepting } = await server(t);
      nameOnce(t, "moving.example", "127.0.0.1");
      const host = new Host();
      dialler({ allowPrivate: true }).dial(1, `${scheme}://moving.example:${port}/`, host);
      await until("the path is open", () => host.links.length === 1);
      host.links[0]?.send(bytes("one"));
      if (scheme === "ws") await until("the frame arrives", () => accepting.frames().length === 1);
      else {
        await until("the answer arrives", () => host.frames().length === 1);
        assert.deepEqual(asked, [`POST moving.example:${port}/.mesh`]);
        assert.deepEqual(host.frames(), ["answer"]);
      }
      host.links[0]?.abort?.(1000, "");
    });

    test(`${scheme} follows no redirect`, async (t) => {
      const secret = await server(t);
      for (const status of [301, 307, 308]) {
        const { port } = await server(t, { status, location: `http://127.0.0.1:${secret.port}/.mesh` });
        const host = new Host();
        dialler({ allowPrivate: true }).dial(1, `${scheme}://127.0.0.1:${port}/`, host);
        const isOver = () =>
          host.failures.length === 1 || host.inputs.some(({ type }) => type === "PathClosed");
        if (scheme === "http") {
          await until("the path is open", () => host.links.length === 1);
          host.links[0]?.send(bytes("one"));
        }
        await until("the dial failed", isOver);
      }
      assert.equal(secret.connections(), 0);
    });
  }

  test("http closes connections that nobody uses any more", async (t) => {
    const { listening, port } = await server(t);
    const host = new Host();
    dialler({ allowPrivate: true }).dial(1, `http://127.0.0.1:${port}/`, host);
    await until("the path is open", () => host.links.length === 1);
    const connected = once(listening, "connection");
    host.links[0]?.send(bytes("one"));
    const [socket] = (await connected) as [Socket];
    await once(socket, "close");
    assert.deepEqual(host.frames(), ["answer"]);
    host.links[0]?.abort?.(1000, "");
  });
});
