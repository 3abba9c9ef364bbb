import { readFile } from "node:fs/promises";
import type { Server } from "node:http";
import { answerOf } from "../driver/http.ts";
import { Mesh, type MeshParts } from "../driver/mesh.ts";
import type { JoinOptions } from "../driver/options.ts";
import { ExchangeAcceptor } from "../transports/exchange-accept.ts";
import { acceptSockets, type NodeFetch, serve } from "../transports/node.ts";
import { MESH_PATH } from "../transports/protocol.ts";
import { unref } from "../transports/websocket.ts";
import { joinAs } from "./join.ts";
import { leafPlatform } from "./slim.ts";

export { sqlite } from "../stores/sqlite.ts";
export {
  type NodeFetch,
  type NodeInfo as ConnectionInfo,
  type ServeOptions,
  serve,
} from "../transports/node.ts";
export * from "./common.ts";

/** How often paths of HTTP that went silent are looked for. */
const SWEEP_MS = 15_000;

/** What `join` takes in Node. */
export interface NodeJoinOptions extends JoinOptions {
  /** A port to accept peers at, for a node without a server of its own; `mesh.handler` serves the others. */
  readonly listen?: number | { readonly port: number; readonly hostname?: string } | undefined;
}

/** A node of the mesh in Node. */
export class NodeMesh extends Mesh {
  readonly #exchange: ExchangeAcceptor = new ExchangeAcceptor(this.paths);
  readonly #closers: (() => void)[] = [];
  #server: Server | undefined;

  constructor(parts: MeshParts) {
    super(parts);
    const sweep = setInterval(() => this.#exchange.sweep(), SWEEP_MS);
    unref(sweep);
    this.#closers.push(() => clearInterval(sweep));
  }

  /** The port that the option `listen` opened. */
  get port(): number | undefined {
    const address = this.#server?.address();
    return typeof address === "object" && address !== null ? address.port : undefined;
  }

  /**
   * A fetch handler that accepts peers at `/.mesh` and gives everything else to `app`; a `MeshError` that this throws becomes
   * its answer. `serve` of this package lets it accept WebSockets too; with another server, call `attach` as well.
   */
  handler(app: NodeFetch): NodeFetch & { attach: (server: Server) => void } {
    const fetch: NodeFetch = (request, info) => {
      if (new URL(request.url).pathname !== MESH_PATH) return answerOf(() => app(request, info));
      return this.#exchange.handle(request, info?.incoming?.socket.remoteAddress ?? "");
    };
    return Object.assign(fetch, { attach: (server: Server) => this.attach(server) });
  }

  /** Accepts the WebSockets of peers at `/.mesh` of a server. */
  attach(server: Server): void {
    this.#closers.push(acceptSockets(server, this.paths));
  }

  /** Listens for peers alone. */
  async listen(listen: NonNullable<NodeJoinOptions["listen"]>): Promise<void> {
    const at = typeof listen === "number" ? { port: listen } : listen;
    const server = await serve({ fetch: this.handler(() => new Response(null, { status: 404 })), ...at });
    this.#server = server;
    this.#closers.push(() => {
      server.close();
      server.closeAllConnections();
    });
  }

  override async close(): Promise<void> {
    await super.close();
    for (const close of this.#closers.splice(0)) close();
  }
}

let compiled: Promise<WebAssembly.Module> | undefined;

/** Compiles the core that the package carries, once. */
function compile(): Promise<WebAssembly.Module> {
  compiled ??= readFile(new URL("../../core/core.wasm", import.meta.url)).then((bytes) =>
    WebAssembly.compile(bytes),
  );
  return compiled;
}

/** Starts a node in this process and joins the ring. */
export function join(options: NodeJoinOptions): Promise<NodeMesh> {
  return joinAs(NodeMesh, options, leafPlatform(compile), ["listen"], async (mesh) => {
    if (options.listen !== undefined) await mesh.listen(options.listen);
  });
}
