// The Worker under test: nodes in Durable Objects of one namespace, which reach each other through their stubs.
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import {
  type Extension,
  MeshNode,
  type MeshNodeOptions,
  type MeshProps,
  type ServiceOptions,
} from "selfsame";

/** Bindings of the Worker under test. */
export type Env = { NODE: DurableObjectNamespace<Node>; ROOM: DurableObjectNamespace<Room> };

/** The owner of every name in these tests. */
export const OWNER_SEED: string = "07".repeat(32);

/** Each object's name is its host name: `a` answers at `http://a.test/.mesh`. The first is the bootstrap of all. */
export class Node extends MeshNode<Env> {
  /** Random for each life of the object. */
  readonly life: string = crypto.randomUUID();

  override options = (env: Env): MeshNodeOptions => {
    const { name } = this.ctx.id;
    return {
      network: "edge-tests",
      seed: seedOf(name ?? ""),
      address: [`ws://${name}.test/.mesh`, `http://${name}.test/.mesh`],
      bootstrap: BOOTSTRAPS[name ?? ""],
      ownerSeed: UNGRANTED.has(name ?? "") ? undefined : OWNER_SEED,
      allowPrivate: true,
      domain: name,
      dial: (address) => {
        const { hostname } = new URL(address);
        return env.NODE.get(env.NODE.idFromName(hostname.replace(/\.test$/, "")));
      },
    };
  };

  override services: Record<string, string | ServiceOptions> = {
    echo: "Echo",
    ...SERVICES[this.ctx.id.name ?? ""],
  };

  override more: Extension | undefined = EXTENSIONS[this.ctx.id.name ?? ""];
}

/** Tells who called and what arrived. */
export class Echo extends WorkerEntrypoint<Env, MeshProps> {
  override async fetch(request: Request): Promise<Response> {
    const { caller, assurance } = this.ctx.props;
    const { pathname, search } = new URL(request.url);
    const headers = Object.fromEntries(request.headers);
    return Response.json({ caller, assurance, path: pathname + search, headers, body: await request.text() });
  }
}

/** Sends back what arrives on a socket, and tells how it was closed. */
export class Chat extends WorkerEntrypoint<Env, MeshProps> {
  /** How sockets were closed, by the path that they were opened at. */
  static readonly ended: Record<string, string> = {};

  override async fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (request.headers.get("upgrade") !== "websocket") return new Response("no upgrade");
    if (pathname === "/refused") return new Response("not you", { status: 403 });
    if (pathname === "/hang") await new Promise((resolve) => setTimeout(resolve, 3_600_000));
    const { 0: client, 1: server } = new WebSocketPair();
    server.binaryType = "arraybuffer";
    server.addEventListener("message", ({ data }) => {
      if (data === "close") server.close(1008, "told to");
      else server.send(data);
    });
    server.addEventListener("close", ({ code, reason }) => {
      Chat.ended[pathname] = `${code} ${reason}`;
    });
    server.accept();
    server.send(`${this.ctx.props.caller} ${request.headers.get("x-own")}`);
    const headers = { "sec-websocket-protocol": "chat.2" };
    return new Response(null, { status: 101, webSocket: client, headers });
  }
}

/** Shows those who come over the mesh to their rooms. */
export class Lobby extends WorkerEntrypoint<Env, MeshProps> {
  override fetch(request: Request): Promise<Response> {
    const { ROOM } = this.env;
    return ROOM.get(ROOM.idFromName(new URL(request.url).pathname)).fetch(request);
  }
}

/** A room, which sleeps while nobody speaks: its sockets hibernate. */
export class Room extends DurableObject<Env> {
  override async fetch(): Promise<Response> {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }

  override async webSocketMessage(_: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const sockets = this.ctx.getWebSockets();
    for (const socket of sockets) socket.send(`${message} to ${sockets.length}`);
  }
}

/** Sends back what it reads, and begins to answer when it has read the first of it. */
export class Streaming extends WorkerEntrypoint<Env, MeshProps> {
  override async fetch(request: Request): Promise<Response> {
    const reader = (request.body as ReadableStream<Uint8Array>).getReader();
    const { value: first } = await reader.read();
    const rest = new ReadableStream({
      start: (controller) => controller.enqueue(first),
      pull: async (controller) => {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
    });
    return new Response(rest);
  }
}

/** Fails in the way that the path names, and tells of requests that were given up. */
export class Failing extends WorkerEntrypoint<Env, MeshProps> {
  /** Paths of requests that were given up. */
  static readonly aborted: string[] = [];

  override async fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    request.signal.addEventListener("abort", () => {
      Failing.aborted.push(pathname);
    });
    if (pathname === "/throw") throw new Error("it throws on purpose");
    // A timer: the platform itself ends what waits for nothing.
    if (pathname.startsWith("/hang")) await new Promise((resolve) => setTimeout(resolve, 3_600_000));
    const half = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("half")),
      pull: async (controller) => {
        if (pathname !== "/half") await new Promise((resolve) => setTimeout(resolve, 3_600_000));
        controller.error(new Error("it fails on purpose"));
      },
    });
    return new Response(half);
  }
}

/** Secret seeds of the nodes, so that their ids are known before they start. */
export function seedOf(name: string): string {
  const bytes = new TextEncoder().encode(name.padEnd(32, "."));
  return [...bytes.subarray(0, 32)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Nodes without the owner's seed, so that they need a grant for what they serve. */
export const UNGRANTED: Set<string> = new Set();

/** What nodes serve beside `echo`. */
export const SERVICES: Record<string, Record<string, string | ServiceOptions>> = {};

/** What nodes serve beside their services. */
export const EXTENSIONS: Record<string, Extension> = {};

/** Who joins through whom. */
export const BOOTSTRAPS: Record<string, string> = {};

export default {
  fetch: (): Response => new Response("nodes answer at their stubs"),
};
