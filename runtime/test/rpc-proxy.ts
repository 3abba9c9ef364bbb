import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import type { TestContext } from "node:test";

/** Stands between clients and a server on loopback, and lets their connections break, stall, or count for another address. */
export class TestProxy {
  readonly #server: Server;
  readonly #source: string | undefined;
  readonly #pairs: Set<readonly [Socket, Socket]> = new Set();
  /** Where connections go from now on. */
  target: number;
  /** Connections that were made. */
  opened = 0;

  private constructor(target: number, source: string | undefined) {
    this.target = target;
    this.#source = source;
    this.#server = createServer((client) => this.#pass(client));
  }

  /** Starts one in front of the port of a URL; `source` is the address that it forwards. */
  static async start(t: TestContext, url: string, source?: string): Promise<TestProxy> {
    const proxy = new TestProxy(Number(new URL(url).port), source);
    proxy.#server.listen(0, "127.0.0.1");
    await once(proxy.#server, "listening");
    t.after(() => {
      proxy.break();
      proxy.#server.close();
    });
    return proxy;
  }

  /** Its URL of WebSockets. */
  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}/rpc`;
  }

  /** Connections that are open. */
  get open(): number {
    return this.#pairs.size;
  }

  /** Breaks all connections. */
  break(): void {
    for (const sockets of this.#pairs) for (const socket of sockets) socket.resetAndDestroy();
  }

  /** Reads nothing more of what the server sends. */
  stall(): void {
    for (const [client, server] of this.#pairs) {
      server.unpipe(client);
      server.pause();
    }
  }

  #pass(client: Socket): void {
    this.opened++;
    const server = connect(this.target, "127.0.0.1");
    const pair = [client, server] as const;
    this.#pairs.add(pair);
    const end = (): void => {
      this.#pairs.delete(pair);
      for (const socket of pair) socket.destroy();
    };
    for (const socket of pair) socket.on("error", () => undefined).on("close", end);
    client.once("data", (head: Buffer) => {
      server.write(this.#source === undefined ? head : forwarding(head, this.#source));
      client.pipe(server);
    });
    server.pipe(client);
  }
}

/** Adds what a proxy says of the client to the head of a request. */
function forwarding(head: Buffer, source: string): Buffer {
  const at = head.indexOf("\r\n") + 2;
  return Buffer.concat([
    head.subarray(0, at),
    Buffer.from(`x-forwarded-for: ${source}\r\n`),
    head.subarray(at),
  ]);
}
