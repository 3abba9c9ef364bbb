import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import type { TestContext } from "node:test";
import type { Input } from "../src/codec/input.ts";
import { type Link, type Opened, type Path, type PathHost, PathTable } from "../src/driver/paths.ts";
import type { NodeJoinOptions } from "../src/entries/node.ts";
import { join, memory, type NodeMesh } from "../src/entries/node.ts";

/** Replaces the wall clock and these timers for a test; the monotonic clock goes with them. */
export function mockClocks(
  t: TestContext,
  apis: ("Date" | "setTimeout" | "setInterval")[],
  now: number,
): void {
  t.mock.timers.enable({ apis, now });
  t.mock.method(performance, "now", () => Date.now() - now);
}

/** Counts timeouts of the platform that are set and cleared during a test. */
export function countTimeouts(t: TestContext): { set: number; cleared: number } {
  const counts = { set: 0, cleared: 0 };
  const { setTimeout: set, clearTimeout: clear } = globalThis;
  t.mock.method(globalThis, "setTimeout", (...given: Parameters<typeof set>) => {
    counts.set++;
    return set(...given);
  });
  t.mock.method(globalThis, "clearTimeout", (id: ReturnType<typeof set>) => {
    counts.cleared++;
    clear(id);
  });
  return counts;
}

/** A port on loopback that nobody listens at. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      if (typeof address !== "object" || address === null) return reject(new Error("no port"));
      server.close(() => resolve(address.port));
    });
  });
}

/** A port of UDP on loopback that nobody listens at. */
export async function freeUdpPort(): Promise<number> {
  const socket = createSocket("udp4");
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  const { port } = socket.address();
  const closed = once(socket, "close");
  socket.close();
  await closed;
  return port;
}

/** A host that keeps what it is told and whose links the test uses as the core would. */
export class Host implements PathHost {
  readonly inputs: Input[] = [];
  readonly links: Link[] = [];
  readonly failures: string[] = [];
  readonly table: PathTable = new PathTable((input) => this.inputs.push(input));

  open(link: Link, opened: Opened): Path {
    this.links.push(link);
    return this.table.open(link, opened);
  }

  resume(): Path {
    throw new Error("not in this test");
  }

  dialFailed(_: number, reason: string): void {
    this.failures.push(reason);
  }

  async settled(): Promise<void> {}

  frames(): string[] {
    return this.inputs.flatMap((input) =>
      input.type === "Received" ? [Buffer.from(input.frame).toString()] : [],
    );
  }
}

/** The sockets that servers accepted. */
export class WatchedSockets {
  readonly #sockets: Socket[] = [];

  constructor(...servers: Server[]) {
    for (const server of servers) server.on("connection", (socket) => this.#sockets.push(socket));
  }

  /** Bytes that wait in all of them. */
  get waitingBytes(): number {
    return this.#sockets.reduce((sum, socket) => sum + (socket.destroyed ? 0 : socket.writableLength), 0);
  }
}

/** How long a condition may take to come true. */
const PATIENCE_MS = 15_000;

/** Waits for a condition; fails with its name when it does not come true. */
export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`in ${PATIENCE_MS} ms it did not come true that ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The owner of the names in the tests. */
export const OWNER_SEED: string = "11".repeat(32);

/** A node and where to reach it. */
export interface TestNode {
  mesh: NodeMesh;
  /** Its address with its id. */
  bootstrap: string;
}

/** Starts a member that listens on loopback by `ws`, for POSTs alone by `http`, by `tcp` or by `udp`. */
export async function member(
  options: Partial<NodeJoinOptions> & { scheme?: "ws" | "http" | "tcp" | "udp" } = {},
): Promise<TestNode> {
  const { scheme = "ws", ...rest } = options;
  const isBare = scheme === "tcp" || scheme === "udp";
  const port = scheme === "udp" ? await freeUdpPort() : await freePort();
  const address = `${scheme}://127.0.0.1:${port}${isBare ? "" : "/.mesh"}`;
  const mesh = await join({
    network: "test",
    storage: memory(),
    listen: isBare ? address : { port, hostname: "127.0.0.1" },
    address,
    allowPrivate: true,
    ...rest,
  });
  return { mesh, bootstrap: `${address}#${mesh.id}` };
}

/** Starts a leaf: a node that nobody can dial. */
export function leaf(bootstrap: string, options: Partial<NodeJoinOptions> = {}): Promise<NodeMesh> {
  return join({ network: "test", storage: memory(), bootstrap, allowPrivate: true, ...options });
}

/** Lets everything happen that waits for nothing else. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A body that arrives as the test says. */
export class Upload {
  isCancelled: boolean = false;
  /** How often it was asked for more. */
  pulls: number = 0;
  readonly stream: ReadableStream<Uint8Array>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor() {
    const source: UnderlyingDefaultSource<Uint8Array> = {
      start: (controller) => {
        this.#controller = controller;
      },
      pull: () => {
        this.pulls++;
      },
      cancel: () => {
        this.isCancelled = true;
      },
    };
    this.stream = new ReadableStream(source, { highWaterMark: 0 });
  }

  /** Lets bytes arrive. */
  send(content: Uint8Array): this {
    this.#controller?.enqueue(content);
    return this;
  }

  /** Ends it. */
  end(): void {
    this.#controller?.close();
  }

  /** Breaks it off. */
  fail(): void {
    this.#controller?.error(new TypeError("the client went away"));
  }
}
