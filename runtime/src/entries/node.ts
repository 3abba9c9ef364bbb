import { readFile } from "node:fs/promises";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { answerOf } from "../driver/http.ts";
import { Mesh, type MeshParts } from "../driver/mesh.ts";
import type { JoinOptions } from "../driver/options.ts";
import type { CloseOptions } from "../driver/serving.ts";
import { unref } from "../driver/timers.ts";
import { guarded } from "../guard.ts";
import { checkedDiallers } from "../transports/checked-dial.ts";
import { ExchangeAcceptor } from "../transports/exchange-accept.ts";
import { TrustedProxies } from "../transports/forwarded.ts";
import { type Listen, type ListenPlace, openAll } from "../transports/listen.ts";
import { acceptSockets, type NodeFetch, serve, sourceOf } from "../transports/node.ts";
import { MESH_PATH } from "../transports/protocol.ts";
import { listenTcp } from "../transports/tcp.ts";
import { listenUdp } from "../transports/udp/listen.ts";
import { joinAs } from "./join.ts";
import { leafPlatform } from "./slim.ts";

export { sqlite } from "../stores/sqlite.ts";
export type { Listen } from "../transports/listen.ts";
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

/** A node of the mesh in Node. */
export class NodeMesh extends Mesh {
  readonly #exchange: ExchangeAcceptor = new ExchangeAcceptor(this.paths);
  readonly #closers: (() => Promise<void> | void)[] = [];
  #port: number | undefined;
  #proxies: TrustedProxies = new TrustedProxies();

  constructor(parts: MeshParts) {
    super(parts);
    const sweep = setInterval(
      guarded("maintenance", () => this.#exchange.sweep()),
      SWEEP_MS,
    );
    unref(sweep);
    this.#closers.push(() => clearInterval(sweep));
  }

  /** The port that the option `listen` opened, of several the first. */
  get port(): number | undefined {
    return this.#port;
  }

  /**
   * A fetch handler that accepts peers at `/.mesh` and gives everything else to `app`; a `MeshError` that this throws becomes
   * its answer. `serve` of this package lets it accept WebSockets too; with another server, call `attach` as well.
   */
  handler(app: NodeFetch): NodeFetch & { attach: (server: Server) => void } {
    const fetch: NodeFetch = (request, info) => {
      if (new URL(request.url).pathname !== MESH_PATH) return answerOf(() => app(request, info));
      const incoming = info?.incoming;
      return this.#exchange.handle(request, incoming === undefined ? "" : sourceOf(incoming, this.#proxies));
    };
    return Object.assign(fetch, { attach: (server: Server) => this.attach(server) });
  }

  /** Accepts the WebSockets of peers at `/.mesh` of a server. */
  attach(server: Server): void {
    this.#closers.push(acceptSockets(server, this.paths, this.#proxies));
  }

  /** Trusts the forwarded headers of these proxies, as the option `trustedProxies` says. */
  trustProxies(proxies: readonly string[] | undefined): void {
    this.#proxies = new TrustedProxies(proxies);
  }

  /** Listens for peers alone. */
  async listen(listen: NonNullable<NodeJoinOptions["listen"]>): Promise<void> {
    const port = await openAll(listen, {
      http: (at) => this.#listenHttp(at),
      tcp: (at) => this.#listenTcp(at),
      udp: (at) => this.#listenUdp(at),
    });
    this.#port ??= port;
  }

  override async close(options?: CloseOptions): Promise<void> {
    await super.close(options);
    await Promise.all(this.#closers.splice(0).map((close) => close()));
  }

  async #listenHttp({ port, hostname }: ListenPlace): Promise<number> {
    const fetch = this.handler(() => new Response(null, { status: 404 }));
    const server = await serve({ fetch, port, ...(hostname === undefined ? {} : { hostname }) });
    this.#closers.push(() => {
      server.close();
      server.closeAllConnections();
    });
    return (server.address() as AddressInfo).port;
  }

  async #listenTcp(at: ListenPlace): Promise<number> {
    const server = await listenTcp(at, this.paths);
    this.#closers.push(() => {
      server.close();
    });
    return (server.address() as AddressInfo).port;
  }

  async #listenUdp(at: ListenPlace): Promise<number> {
    const listener = await listenUdp(at, this.paths);
    this.#closers.push(() => listener.close());
    return listener.port;
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
  const platform = leafPlatform(compile, checkedDiallers(options ?? {}));
  return joinAs(NodeMesh, options, platform, ["listen", "trustedProxies"], async (mesh) => {
    mesh.trustProxies(options.trustedProxies);
    if (options.listen !== undefined) await mesh.listen(options.listen);
  });
}
