import { createSocket, type RemoteInfo } from "node:dgram";
import { once } from "node:events";
import type { TestContext } from "node:test";
import type { LogRecord } from "../src/driver/log.ts";
import type { Handler } from "../src/driver/serve.ts";
import type { NodeMesh } from "../src/entries/node.ts";
import {
  createRpcClient,
  createRpcServer,
  type NodeRpcServer,
  type RpcClient,
} from "../src/entries/rpc-node.ts";
import type { RpcClientOptions, RpcMesh } from "../src/rpc/client.ts";
import type { RpcServer, RpcServerOptions } from "../src/rpc/server.ts";
import { CALLER, KEY, NETWORK, SERVICE, serveHttp, serveSockets, startClient } from "./rpc-support.ts";
import { member } from "./support.ts";

export const UNOWNED = { unowned: true } as const;
export const URL_OF_SERVICE: string = `https://${SERVICE}.mesh`;
/** The ways of datagrams. */
export const WAYS = ["udp", "http", "websocket"] as const;
export type Datagrams = (typeof WAYS)[number];

/** A service that carries HTTP, and who calls it. */
export interface Stage {
  readonly provider: NodeMesh;
  readonly caller: NodeMesh;
  readonly server: NodeRpcServer;
  readonly client: RpcClient;
  readonly records: LogRecord[];
  readonly address: string;
  readonly bootstrap: string;
}

/** Starts a server of HTTP by RPC that ends with the test; its address. */
export async function startFetchServer(
  t: TestContext,
  fetch: Handler,
  { way = "udp", ...options }: Partial<RpcServerOptions> & { way?: Datagrams } = {},
): Promise<{ server: NodeRpcServer; address: string; records: LogRecord[] }> {
  const records: LogRecord[] = [];
  const base = { network: NETWORK, service: SERVICE, ticketKey: KEY, idempotent: true };
  const log = (record: LogRecord): void => void records.push(record);
  const server = createRpcServer({ ...base, fetch, log, ...options });
  t.after(() => server.close());
  const places = {
    udp: async () => (await server.listenUdp({ host: "127.0.0.1", port: 0 })).address,
    http: () => serveHttp(t, (request, origin) => server.fetch(request, origin)),
    websocket: () => serveSockets(t, server),
  };
  const address = await places[way]();
  return { server, address, records };
}

/** Starts a service that carries HTTP, and a client that has its tickets without a mesh. */
export async function startPair(
  t: TestContext,
  fetch: Handler,
  options: Partial<RpcServerOptions> & { way?: Datagrams; mesh?: Partial<RpcMesh> } = {},
): Promise<{ server: NodeRpcServer; client: RpcClient; address: string; records: LogRecord[] }> {
  const { mesh, ...rest } = options;
  const { server, address, records } = await startFetchServer(t, fetch, rest);
  return { server, address, records, client: clientOf(t, server, address, { mesh }) };
}

/** Makes a client of a service that carries HTTP. */
export function clientOf(
  t: TestContext,
  server: RpcServer,
  address: string,
  { mesh = {}, caller = CALLER }: { mesh?: Partial<RpcMesh> | undefined; caller?: string } = {},
): RpcClient {
  const fetch: RpcMesh["fetch"] = async (input) =>
    server.answerPeer(new Request(input, { method: "POST" }), caller, address);
  return startClient(t, { allowPrivate: true, fetch, ...mesh });
}

/** Starts a service that carries HTTP, and a node that calls it. */
export async function startStage(
  t: TestContext,
  fetch: Handler,
  options: Partial<RpcServerOptions> & {
    way?: Datagrams;
    client?: Partial<Extract<RpcClientOptions, { lookup?: unknown }>>;
  } = {},
): Promise<Stage> {
  const { client: clientOptions, ...serverOptions } = options;
  const started = await startFetchServer(t, fetch, serverOptions);
  const { records, server, address } = started;
  const log = (record: LogRecord): void => void records.push(record);
  const { mesh: provider, bootstrap } = await member({ network: NETWORK, log });
  t.after(() => provider.close());
  const { mesh: caller } = await member({ network: NETWORK, bootstrap, log });
  t.after(() => caller.close());
  await provider.serve(SERVICE, server.tickets(address), UNOWNED);
  const given = { mesh: caller, lookup: UNOWNED, log: () => undefined, ...clientOptions };
  const client = createRpcClient(given as RpcClientOptions);
  t.after(() => client.close());
  return { provider, caller, server, client, records, address, bootstrap };
}

/**
 * Stands between a client and a server of UDP on loopback, counts their datagrams, and loses them if it is told to. One that is sent again,
 * as on a busy machine, counts once.
 */
export class UdpRelay {
  readonly #front = createSocket("udp4");
  readonly #back = createSocket("udp4");
  #client: RemoteInfo | undefined;
  readonly #up: Set<string> = new Set();
  readonly #down: Set<string> = new Set();
  isBroken = false;

  /** Starts one in front of an address. */
  static async start(t: TestContext, address: string): Promise<UdpRelay> {
    const relay = new UdpRelay();
    const port = Number(address.split(":")[1]);
    relay.#front.on("message", (bytes, from) => {
      relay.#client = from;
      relay.#up.add(bytes.toString("latin1"));
      if (!relay.isBroken) relay.#back.send(bytes, port, "127.0.0.1");
    });
    relay.#back.on("message", (bytes) => {
      relay.#down.add(bytes.toString("latin1"));
      const { port = 0, address = "" } = relay.#client ?? {};
      if (!relay.isBroken) relay.#front.send(bytes, port, address);
    });
    for (const socket of [relay.#front, relay.#back]) {
      socket.bind(0, "127.0.0.1");
      await once(socket, "listening");
      t.after(() => socket.close());
    }
    return relay;
  }

  get address(): string {
    return `127.0.0.1:${this.#front.address().port}`;
  }

  /** Datagrams to the server. */
  get up(): number {
    return this.#up.size;
  }

  /** Datagrams of the server. */
  get down(): number {
    return this.#down.size;
  }

  /** Counts anew. */
  reset(): void {
    this.#up.clear();
    this.#down.clear();
  }
}
