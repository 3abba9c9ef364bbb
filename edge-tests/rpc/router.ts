import {
  encodeRpcRouterConfig,
  type RpcInput,
  type RpcOutput,
  type RpcSelection,
} from "../../runtime/src/codec/rpc.ts";
import { endpointOf } from "./address.ts";
import { Machine } from "./machine.ts";
import type { Instances } from "./modules.ts";
import { ROUTER_SECRET } from "./replica.ts";
import type { Party, World } from "./world.ts";

/** Number of the router's address. */
export const ROUTER = 1000;

/** How a router is set up. */
export type RouterSettings = {
  readonly servers: readonly number[];
  readonly selection: RpcSelection;
  readonly bound?: number;
  readonly redirects?: boolean;
  readonly entropy: Uint8Array;
};

/** A router in front of replicas. */
export class Router implements Party {
  readonly number: number = ROUTER;
  readonly machine: Machine;

  constructor(world: World, pool: Instances, settings: RouterSettings) {
    const { servers, selection, bound = 1, redirects = false, entropy } = settings;
    const config = encodeRpcRouterConfig({ secret: ROUTER_SECRET, entropy, selection, bound, redirects });
    this.machine = new Machine(pool, config);
    world.add(this);
    const endpoints = new Uint8Array(servers.flatMap((server) => [...endpointOf(server)]));
    world.tell(this, [{ type: "SetServers", endpoints }]);
  }

  take(output: RpcOutput): readonly RpcInput[] {
    throw new Error(`a router said ${output.type}`);
  }
}
