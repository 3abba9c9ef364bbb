import { answerOf } from "../driver/http.ts";
import { Mesh, type MeshParts } from "../driver/mesh.ts";
import type { JoinOptions } from "../driver/options.ts";
import { acceptSocket, type DenoFetch, type DenoServer, deno } from "../transports/deno.ts";
import { ExchangeAcceptor } from "../transports/exchange-accept.ts";
import { MESH_PATH } from "../transports/protocol.ts";
import { joinAs } from "./join.ts";
import { leafPlatform } from "./slim.ts";

export { denoKv } from "../stores/deno-kv.ts";
export { sqlite } from "../stores/sqlite.ts";
export type { DenoFetch, DenoInfo as ConnectionInfo, DenoServer } from "../transports/deno.ts";
export * from "./common.ts";

/** How often paths of HTTP that went silent are looked for. */
const SWEEP_MS = 15_000;

/** What `join` takes in Deno. */
export interface DenoJoinOptions extends JoinOptions {
  /** A port to accept peers at, for a node without a server of its own; `mesh.handler` serves the others. */
  readonly listen?: number | { readonly port: number; readonly hostname?: string } | undefined;
}

/** A node of the mesh in Deno. */
export class DenoMesh extends Mesh {
  readonly #exchange: ExchangeAcceptor = new ExchangeAcceptor(this.paths);
  readonly #sweep: ReturnType<typeof setInterval>;
  #server: DenoServer | undefined;
  readonly #stop: AbortController = new AbortController();

  constructor(parts: MeshParts) {
    super(parts);
    this.#sweep = setInterval(() => this.#exchange.sweep(), SWEEP_MS);
  }

  /** The port that the option `listen` opened. */
  get port(): number | undefined {
    return this.#server?.addr.port;
  }

  /**
   * A fetch handler that accepts peers at `/.mesh` and gives everything else to `app`; a `MeshError` that this throws becomes
   * its answer.
   */
  handler(app: DenoFetch): DenoFetch {
    return (request, info) => {
      if (new URL(request.url).pathname !== MESH_PATH) return answerOf(() => app(request, info));
      const remote = info?.remoteAddr?.hostname ?? "";
      const isUpgrade = request.headers.get("upgrade")?.toLowerCase() === "websocket";
      return isUpgrade ? acceptSocket(request, this.paths, remote) : this.#exchange.handle(request, remote);
    };
  }

  /** Listens for peers alone. */
  listen(listen: NonNullable<DenoJoinOptions["listen"]>): void {
    const at = typeof listen === "number" ? { port: listen } : listen;
    const fetch = this.handler(() => new Response(null, { status: 404 }));
    this.#server = serve({ fetch, signal: this.#stop.signal, ...at });
  }

  override async close(): Promise<void> {
    clearInterval(this.#sweep);
    await super.close();
    this.#stop.abort();
  }
}

/** Listens for HTTP and, when `fetch` is a handler of a mesh, for peers. */
export function serve(options: {
  fetch: DenoFetch;
  port?: number;
  hostname?: string;
  signal?: AbortSignal;
}): DenoServer {
  const { fetch: handler, port = 0, hostname, signal = new AbortController().signal } = options;
  const at = hostname === undefined ? { port } : { port, hostname };
  return deno().serve({ ...at, signal, handler, onListen: () => undefined });
}

let compiled: Promise<WebAssembly.Module> | undefined;

/** Compiles the core that the package carries, once. */
function compile(): Promise<WebAssembly.Module> {
  compiled ??= deno()
    .readFile(new URL("../../core/core.wasm", import.meta.url))
    .then((bytes) => WebAssembly.compile(bytes));
  return compiled;
}

/** Starts a node in this process and joins the ring. */
export function join(options: DenoJoinOptions): Promise<DenoMesh> {
  return joinAs(DenoMesh, options, leafPlatform(compile), ["listen"], (mesh) => {
    if (options.listen !== undefined) mesh.listen(options.listen);
  });
}
