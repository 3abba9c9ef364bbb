import { MeshError } from "../codec/code.ts";
import { encodeRpcRouterConfig, RPC_SELECTIONS, type RpcSelection } from "../codec/rpc.ts";
import { concat } from "../concat.ts";
import { Logger, type LogOptions } from "../driver/log.ts";
import { randomBytes } from "../driver/random.ts";
import { platformTimers, type Timers } from "../driver/timers.ts";
import { checkIpPort, endpointOf } from "./endpoint.ts";
import { Engine, instantiate } from "./engine.ts";
import { checkRouterKey } from "./keys.ts";
import type { RpcPlatform, UdpPlace, UdpPort } from "./platform.ts";

/** Requests at a server while others wait: enough to keep it busy on a network whose round trips are shorter than the calls. */
const BOUND = 3;
const MAX_BOUND = 0xffff;
const ENTROPY_BYTES = 32;

/** How a router of the RPC is made. */
export interface RpcRouterOptions extends LogOptions {
  /** The secret that routers and replicas of the service share, 32 bytes. Secret. */
  readonly routerKey: Uint8Array;
  /** Where its replicas are, as `IP:port` of UDP: where clients reach them, too. */
  readonly servers: readonly string[];
  /** How it picks the replica of a call; `bounded` unless given. */
  readonly select?: RpcSelection | undefined;
  /** Calls at a replica while others wait, with `bounded`; 3 unless given. */
  readonly bound?: number | undefined;
  /**
   * Whether it tells clients where to go, in place of passing their requests on: for clients that hear only from whom they have written to,
   * such as those behind a NAT.
   */
  readonly redirect?: boolean | undefined;
  /** Timers of the host; the platform's unless given. */
  readonly timers?: Timers | undefined;
}

/** Picks the replica of each call, which then answers its caller directly. `createRpcRouter` makes one. */
export class RpcRouter implements Disposable {
  readonly #platform: RpcPlatform;
  readonly #options: RpcRouterOptions;
  readonly #key: Uint8Array;
  readonly #logger: Logger;
  readonly #engines: Set<Engine> = new Set();
  readonly #ports: Set<UdpPort> = new Set();
  #endpoints: Uint8Array;
  #isClosed = false;

  constructor(options: RpcRouterOptions, platform: RpcPlatform) {
    const { select = "bounded", bound = BOUND } = options;
    if (!RPC_SELECTIONS.includes(select))
      throw new MeshError("BadConfig", `select is one of ${RPC_SELECTIONS.join(", ")}`);
    if (!Number.isInteger(bound) || bound < 1 || bound > MAX_BOUND)
      throw new MeshError("BadConfig", `bound is a whole number from 1 to ${MAX_BOUND}`);
    this.#platform = platform;
    this.#options = options;
    this.#key = checkRouterKey(options.routerKey);
    this.#endpoints = endpointsOf(options.servers);
    this.#logger = new Logger(options.log, options.logLevel);
  }

  /** Takes calls at a port of UDP. Resolves when it is bound. */
  async listenUdp(place: UdpPlace): Promise<{ readonly address: string }> {
    const { udp, module } = this.#platform;
    if (udp === undefined) throw new MeshError("BadConfig", "there is no UDP on this platform");
    const compiled = await module();
    const instance = await instantiate(compiled);
    const bound: { engine?: Engine } = {};
    const port = await udp.bind(place, (source, bytes) =>
      bound.engine?.push({ type: "Datagram", source, bytes }),
    );
    try {
      if (this.#isClosed) throw new MeshError("Cancelled", "the router was closed");
      bound.engine = new Engine(instance, {
        module: compiled,
        timers: this.#options.timers ?? platformTimers,
        logger: this.#logger,
        config: () => this.#config(),
        began: (engine) => engine.push({ type: "SetServers", endpoints: this.#endpoints }),
        take: (output) => {
          if (output.type === "Send") port.send(output.target, output.bytes);
          else this.#logger.log("error", `rpc.wasm asks a router for ${output.type}`);
        },
        refused: (input, code) => this.#logger.log("error", `rpc.wasm refused ${input.type}`, code),
        lost: () => undefined,
      });
    } catch (error) {
      port.close();
      throw error;
    }
    this.#engines.add(bound.engine);
    this.#ports.add(port);
    return { address: port.address };
  }

  /** Replaces the replicas. */
  setServers(servers: readonly string[]): void {
    this.#endpoints = endpointsOf(servers);
    for (const engine of this.#engines) engine.push({ type: "SetServers", endpoints: this.#endpoints });
  }

  /** Gives its ports back, and erases its key. */
  close(): void {
    this.#isClosed = true;
    for (const engine of this.#engines) engine.close();
    for (const port of this.#ports) port.close();
    this.#engines.clear();
    this.#ports.clear();
    this.#key.fill(0);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #config(): Uint8Array {
    const { select: selection = "bounded", bound = BOUND, redirect: redirects = false } = this.#options;
    const [secret, entropy] = [this.#key, randomBytes(ENTROPY_BYTES)];
    return encodeRpcRouterConfig({ secret, entropy, selection, bound, redirects });
  }
}

function endpointsOf(servers: readonly string[]): Uint8Array {
  if (!Array.isArray(servers))
    throw new MeshError("BadConfig", "servers is a list of addresses such as 192.0.2.1:7400");
  return concat(servers.map((server) => endpointOf(checkIpPort(server))));
}
