import { CLIENT, Client } from "./client.ts";
import { Dice } from "./dice.ts";
import type { InstancePool } from "./modules.ts";
import { Replica } from "./replica.ts";
import { ROUTER, Router } from "./router.ts";
import { type Datagram, World } from "./world.ts";

/** Machines: a client, a router, a replica. */
export const MACHINES = 3;

const DELAY_US = 200;
const SECOND_US = 1_000_000;
const REPLICA = 1;
/** Number of an address that no ticket proves: what is sent there has a forged source. */
const VICTIM = 77;
/** An unproven address gets at most so many times the bytes that came from it. */
const MOST = 3;

/** Exchanges, each by the sizes of request and answer, and whether a router passes the request on. */
const EXCHANGES = [
  { requestBytes: 20, answerBytes: 20, to: REPLICA },
  { requestBytes: 20, answerBytes: 400, to: REPLICA },
  { requestBytes: 20, answerBytes: 1_100, to: REPLICA },
  { requestBytes: 20, answerBytes: 100_000, to: REPLICA },
  { requestBytes: 5_000, answerBytes: 20, to: REPLICA },
  { requestBytes: 20, answerBytes: 20, to: ROUTER },
  { requestBytes: 20, answerBytes: 100_000, to: ROUTER },
] as const;

/**
 * Sends a captured request from an address that is not the client's, once and often, as early data and bound, and
 * returns the exchanges in which more than three times its bytes went there.
 */
export function amplifiedExchanges(pool: InstancePool, seed: number): string[] {
  const problems: string[] = [];
  for (const exchange of EXCHANGES) {
    for (const copies of [1, 3]) {
      for (const isIdempotent of [true, false]) {
        for (const redirects of [false, true]) {
          const { to, received, sent } = play(pool, seed, { ...exchange, copies, isIdempotent, redirects });
          const what = `${exchange.requestBytes} B to ${to}, ${exchange.answerBytes} B back, ${copies} copies`;
          if (received === 0) problems.push(`${what}: nothing was sent`);
          if (sent > MOST * received) problems.push(`${what}: ${sent} bytes for ${received}`);
        }
      }
    }
  }
  return problems;
}

type Exchange = {
  readonly requestBytes: number;
  readonly answerBytes: number;
  readonly to: number;
  readonly copies: number;
  readonly isIdempotent: boolean;
  readonly redirects: boolean;
};

function play(
  pool: InstancePool,
  seed: number,
  { to, copies, redirects, ...call }: Exchange,
): { readonly to: string; readonly received: number; readonly sent: number } {
  const dice = new Dice(seed);
  const captured: Datagram[] = [];
  let sent = 0;
  const world = new World(({ from, to }) => (from === CLIENT || to === VICTIM ? [] : [DELAY_US]));
  world.onSend = (datagram) => {
    if (datagram.from === CLIENT) captured.push(datagram);
    if (datagram.to === VICTIM) sent += datagram.bytes.length;
  };
  const replica = new Replica(world, pool, { number: REPLICA, entropy: dice.bytes(32) });
  new Router(world, pool, { servers: [REPLICA], selection: "random", redirects, entropy: dice.bytes(32) });
  const client = new Client(world, pool, () => replica);
  client.call({ number: 1, ...call }, { target: to, timeout_ms: 30_000 });
  world.run(world.now_us + SECOND_US / 10);
  const requests = captured.slice(0, 1);
  let received = 0;
  for (const { bytes } of requests) {
    for (let copy = 0; copy < copies; copy++) {
      received += bytes.length;
      world.deliver({ from: VICTIM, to, bytes });
      world.run(world.now_us + SECOND_US / 10);
    }
  }
  world.run(world.now_us + 60 * SECOND_US);
  world.end();
  return { to: to === ROUTER ? "the router" : "a replica", received, sent };
}
