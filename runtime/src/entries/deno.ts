import type { Server } from "node:net";
import { answerOf } from "../driver/http.ts";
import { Mesh, type MeshParts } from "../driver/mesh.ts";
import type { JoinOptions } from "../driver/options.ts";
import type { CloseOptions } from "../driver/serving.ts";
import { guarded } from "../guard.ts";
import { checkedDiallers } from "../transports/checked-dial.ts";
import { acceptSocket, type DenoFetch, type DenoServer, deno } from "../transports/deno.ts";
import { ExchangeAcceptor } from "../transports/exchange-accept.ts";
import { TrustedProxies } from "../transports/forwarded.ts";
import { type Listen, type ListenPlace, openAll } from "../transports/listen.ts";
import { MESH_PATH } from "../transports/protocol.ts";
import { listenTcp } from "../transports/tcp.ts";
import { listenUdp, type UdpListener } from "../transports/udp/listen.ts";
import { joinAs } from "./join.ts";
import { leafPlatform } from "./slim.ts";

export { denoKv } from "../stores/deno-kv.ts";
export { sqlite } from "../stores/sqlite.ts";
export type { DenoFetch, DenoInfo as ConnectionInfo, DenoServer } from "../transports/deno.ts";
export type { Listen } from "../transports/listen.ts";
export * from "./common.ts";

/** How often paths of HTTP that went silent are looked for. */
const SWEEP_MS = 15_000;

/** What `join` takes in Deno. */
export interface DenoJoinOptions extends JoinOptions {
  /**
   * Where to accept peers without a server of one's own: a port or `ws://0.0.0.0:7000` for WebSocket and POST,
   * `tcp://0.0.0.0:7001` for TCP, `udp://0.0.0.0:7002` for UDP, or several of them. `mesh.handler` accepts them on a
   * server of yours.
   */
  readonly listen?: Listen | readonly Listen[] | undefined;
  /**
   * Proxies in front of the node, as addresses or prefixes such as `10.0.0.0/8`: peers behind them count by the address in the
   * header `forwarded` or `x-forwarded-for`, which the proxy must append to or replace. Loopback is trusted only if named.
   */
  readonly trustedProxies?: readonly string[] | undefined;
}

/** A node of the mesh in Deno. */
export class DenoMesh extends Mesh {
  readonly #exchange: ExchangeAcceptor = new ExchangeAcceptor(this.paths);
  readonly #sweep: ReturnType<typeof setInterval>;
  readonly #tcp: Server[] = [];
  readonly #udp: UdpListener[] = [];
  #port: number | undefined;
  #proxies: TrustedProxies = new TrustedProxies();
  readonly #stop: AbortController = new AbortController();

  constructor(parts: MeshParts) {
    super(parts);
    this.#sweep = setInterval(
      guarded("maintenance", () => this.#exchange.sweep()),
      SWEEP_MS,
    );
  }

  /** The port that the option `listen` opened, of several the first. */
  get port(): number | undefined {
    return this.#port;
  }

  /**
   * A fetch handler that accepts peers at `/.mesh` and gives everything else to `app`; a `MeshError` that this throws becomes
   * its answer.
   */
  handler(app: DenoFetch): DenoFetch {
    return (request, info) => {
      if (new URL(request.url).pathname !== MESH_PATH) return answerOf(() => app(request, info));
      const remote = this.#proxies.source(info?.remoteAddr?.hostname ?? "", (name) =>
        request.headers.get(name),
      );
      const isUpgrade = request.headers.get("upgrade")?.toLowerCase() === "websocket";
      return isUpgrade ? acceptSocket(request, this.paths, remote) : this.#exchange.handle(request, remote);
    };
  }

  /** Trusts the forwarded headers of these proxies, as the option `trustedProxies` says. */
  trustProxies(proxies: readonly string[] | undefined): void {
    this.#proxies = new TrustedProxies(proxies);
  }

  /** Listens for peers alone. */
  async listen(listen: NonNullable<DenoJoinOptions["listen"]>): Promise<void> {
    const port = await openAll(listen, {
      http: (at) => this.#listenHttp(at),
      tcp: (at) => this.#listenTcp(at),
      udp: (at) => this.#listenUdp(at),
    });
    this.#port ??= port;
  }

  override async close(options?: CloseOptions): Promise<void> {
    await super.close(options);
    clearInterval(this.#sweep);
    this.#stop.abort();
    for (const server of this.#tcp) server.close();
    await Promise.all(this.#udp.map((listener) => listener.close()));
  }

  #listenHttp({ port, hostname }: ListenPlace): number {
    const fetch = this.handler(() => new Response(null, { status: 404 }));
    const at = hostname === undefined ? { port } : { port, hostname };
    return serve({ fetch, signal: this.#stop.signal, ...at }).addr.port;
  }

  async #listenTcp(at: ListenPlace): Promise<number> {
    const server = await listenTcp(at, this.paths);
    this.#tcp.push(server);
    const address = server.address();
    return typeof address === "object" && address !== null ? address.port : at.port;
  }

  async #listenUdp(at: ListenPlace): Promise<number> {
    const listener = await listenUdp(at, this.paths);
    this.#udp.push(listener);
    return listener.port;
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
  const platform = leafPlatform(compile, checkedDiallers(options ?? {}));
  return joinAs(DenoMesh, options, platform, ["listen", "trustedProxies"], async (mesh) => {
    mesh.trustProxies(options.trustedProxies);
    if (options.listen !== undefined) await mesh.listen(options.listen);
  });
}
