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
import type { RpcClientOptions } from "../src/rpc/client.ts";
import type { RpcServerOptions } from "../src/rpc/server.ts";
import { KEY, NETWORK, SERVICE, serveHttp } from "./rpc-support.ts";
import { member } from "./support.ts";

export const UNOWNED = { unowned: true } as const;
export const URL_OF_SERVICE: string = `https://${SERVICE}.mesh`;
/** The ways of datagrams. */
export const WAYS = ["udp", "http"] as const;
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
  const address =
    way === "udp"
      ? (await server.listenUdp({ host: "127.0.0.1", port: 0 })).address
      : await serveHttp(t, (request, origin) => server.fetch(request, origin));
  return { server, address, records };
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
