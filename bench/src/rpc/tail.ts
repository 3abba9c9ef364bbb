import type { Call } from "../../../edge-tests/rpc/calls.ts";
import { Client } from "../../../edge-tests/rpc/client.ts";
import { Dice } from "../../../edge-tests/rpc/dice.ts";
import type { InstancePool } from "../../../edge-tests/rpc/modules.ts";
import { goodNetwork } from "../../../edge-tests/rpc/network.ts";
import { Replica } from "../../../edge-tests/rpc/replica.ts";
import { ROUTER, Router } from "../../../edge-tests/rpc/router.ts";
import { World } from "../../../edge-tests/rpc/world.ts";
import type { RpcSelection } from "../../../runtime/src/codec/rpc.ts";

/** Mean service time on the virtual clock, whose unit is a microsecond. */
const MEAN_US = 100;
/** One way through the network, and the ways of a call: to the router, to the replica, back. */
const DELAY_US = MEAN_US / 100;
const WAYS = 3;
const LOAD = 0.8;
/** Share of the requests at the beginning that do not count: queues are still filling. */
const WARM_UP = 0.1;
const CALL = { target: ROUTER, timeout_ms: 60_000 };
const SETTLE_US = 100_000;
const CLIENTS = 4;
/** Number of the first client's address. */
const FIRST_CLIENT = 2_000;
/** Length of requests and answers. */
const BODY_BYTES = 9;

/** Service times in mean service times, drawn by dice. */
export const DISTRIBUTIONS = {
  bimodal: (dice: Dice) => (dice.chance(0.9) ? 0.5 : 5.5),
  fixed: () => 1,
  exponential: (dice: Dice) => -Math.log(1 - dice.fraction()),
} as const satisfies Readonly<Record<string, (dice: Dice) => number>>;

/** The name of a distribution. */
export type Distribution = keyof typeof DISTRIBUTIONS;

/** When each request arrives and how long it is served: the same for whatever chooses the replica. */
export interface Arrivals {
  readonly at_us: readonly number[];
  readonly service_us: readonly number[];
}

/** Draws Poisson arrivals that load so many replicas to 80 %. */
export function drawArrivals(
  seed: number,
  requests: number,
  replicas: number,
  distribution: Distribution,
): Arrivals {
  const dice = new Dice(seed);
  const draw = DISTRIBUTIONS[distribution];
  const gap_us = MEAN_US / (LOAD * replicas);
  const at_us: number[] = [];
  const service_us: number[] = [];
  let now_us = 0;
  for (let request = 0; request < requests; request += 1) {
    now_us -= Math.log(1 - dice.fraction()) * gap_us;
    at_us.push(Math.round(now_us));
    service_us.push(Math.max(1, Math.round(draw(dice) * MEAN_US)));
  }
  return { at_us, service_us };
}

/** Returns the 99th percentile in mean service times of latencies in the order of the requests. */
function tailOf(latencies_us: ArrayLike<number>): number {
  const counted = Float64Array.from(latencies_us)
    .subarray(Math.floor(latencies_us.length * WARM_UP))
    .sort();
  return (counted[Math.floor(counted.length * 0.99)] ?? Number.NaN) / MEAN_US;
}

/** Returns the 99th percentile if all replicas took the next request of one queue at once. */
export function tailOfSingleQueue({ at_us, service_us }: Arrivals, replicas: number): number {
  const free_us = new Float64Array(replicas);
  const latencies_us = at_us.map((arrived_us, request) => {
    let first = 0;
    for (let at = 1; at < replicas; at += 1) if ((free_us[at] ?? 0) < (free_us[first] ?? 0)) first = at;
    const done_us = Math.max(arrived_us, free_us[first] ?? 0) + (service_us[request] ?? 0);
    free_us[first] = done_us;
    return done_us - arrived_us + WAYS * DELAY_US;
  });
  return tailOf(latencies_us);
}

/** Sends requests through a router to replicas of one worker each; returns the 99th percentile. */
export function tailThroughRouter(
  pool: InstancePool,
  { at_us, service_us }: Arrivals,
  setup: {
    readonly replicas: number;
    readonly selection: RpcSelection;
    readonly bound: number;
    readonly seed: number;
  },
): number {
  const dice = new Dice(setup.seed);
  const world = new World(goodNetwork(DELAY_US));
  const servers = Array.from({ length: setup.replicas }, (_, at) => at + 1);
  const replicas = servers.map((number) => {
    let free_us = 0;
    // One worker and a queue: a call is answered when those before it are.
    const handle = (call: { readonly number: number }) => {
      free_us = Math.max(free_us, world.now_us) + (service_us[call.number] ?? 0);
      return { after_us: free_us - world.now_us };
    };
    return new Replica(world, pool, { number, entropy: dice.bytes(32), handle });
  });
  const { selection, bound } = setup;
  new Router(world, pool, { servers, selection, bound, entropy: dice.bytes(32) });
  const clients = Array.from(
    { length: CLIENTS },
    (_, at) => new Client(world, pool, () => replicas[0], FIRST_CLIENT + at),
  );
  clients.forEach((client, at) => {
    client.call(callOf(at_us.length + at), CALL);
  });
  // Each has its ticket before the first request that counts.
  world.run(world.now_us + SETTLE_US);
  const latencies_us = new Float64Array(at_us.length);
  const begin_us = world.now_us;
  let ended = 0;
  for (const client of clients) {
    client.onEnd = ({ number }) => {
      if (client.outcomes.get(number) !== "Done")
        throw new Error(`a request ended with ${client.outcomes.get(number)}`);
      latencies_us[number] = world.now_us - begin_us - (at_us[number] ?? 0);
      ended += 1;
    };
  }
  const arrive = (number: number): void => {
    clients[number % CLIENTS]?.call(callOf(number), CALL);
    const next_us = at_us[number + 1];
    if (next_us !== undefined) world.after(begin_us + next_us - world.now_us, () => arrive(number + 1));
  };
  world.after(at_us[0] ?? 0, () => arrive(0));
  world.run(Number.POSITIVE_INFINITY, () => ended === at_us.length);
  world.end();
  return tailOf(latencies_us);
}

function callOf(number: number): Call {
  return { number, isIdempotent: true, requestBytes: BODY_BYTES, answerBytes: BODY_BYTES };
}
