import { CLIENT, Client } from "../../../edge-tests/rpc/client.ts";
import { Dice } from "../../../edge-tests/rpc/dice.ts";
import { InstancePool } from "../../../edge-tests/rpc/modules.ts";
import { goodNetwork } from "../../../edge-tests/rpc/network.ts";
import { Replica } from "../../../edge-tests/rpc/replica.ts";
import { World } from "../../../edge-tests/rpc/world.ts";
import type { Experiment } from "../harness/experiment.ts";
import { oursAtMost, type Row } from "../harness/row.ts";
import { exactly } from "../harness/statistics.ts";

const SERVER = 1;
const PAYLOAD_BYTES = 64;
const TICKET_LIFE_S = 3600;
const SECOND_US = 1_000_000;
const MACHINES = 2;

/** Most bytes beyond the payload. */
const BARS = { first: 132, later: 44, reply: 30, renewal: 140 } as const;
/** What TLS adds to the first message each way (Encrypted R2P2, section III.D). */
const PAPER = { name: "Encrypted R2P2, about", bytes: 300 } as const;

/** Bytes that a call took beyond its payload, each way. */
interface Overhead {
  readonly request: number;
  readonly reply: number;
}

/** Makes calls after waits in seconds, and returns the overhead of the datagrams of each. */
function overheads(pool: InstancePool, waits_s: readonly number[]): Overhead[] {
  const dice = new Dice(1);
  const world = new World(goodNetwork(100));
  const entropy = dice.bytes(32);
  const replica = new Replica(world, pool, { number: SERVER, entropy, ticketLife_s: TICKET_LIFE_S });
  const client = new Client(world, pool, () => replica);
  const all = waits_s.map((wait_s, number) => {
    world.run(world.now_us + wait_s * SECOND_US);
    const sent: { readonly to: number; readonly bytes: number }[] = [];
    world.onSend = ({ to, bytes }) => sent.push({ to, bytes: bytes.length });
    const call = { number, isIdempotent: true, requestBytes: PAYLOAD_BYTES, answerBytes: PAYLOAD_BYTES };
    client.call(call, { target: SERVER, timeout_ms: 1_000 });
    world.run(world.now_us + SECOND_US);
    const [request, reply] = sent;
    if (sent.length !== 2 || request?.to !== SERVER || reply?.to !== CLIENT)
      throw new Error(`a call took ${sent.length} datagrams`);
    return { request: request.bytes - PAYLOAD_BYTES, reply: reply.bytes - PAYLOAD_BYTES };
  });
  world.end();
  return all;
}

function row(what: string, bytes: number, most: number, hasPeer: boolean): Row {
  return {
    what,
    unit: "B",
    ours: exactly(bytes),
    peer: hasPeer ? exactly(PAPER.bytes) : null,
    peerName: hasPeer ? PAPER.name : null,
    ratio: hasPeer ? bytes / PAPER.bytes : null,
    bar: oursAtMost(most),
  };
}

/** Bytes that encryption adds to calls of one datagram each way (Encrypted R2P2, section III.D). */
export const r2p2R2: Experiment = {
  name: "r2p2-r2",
  summary: "bytes beyond the payload of requests and replies of one datagram",
  async prepare() {
    const pool = await InstancePool.of(MACHINES);
    return async () => {
      const [first, later, renewing] = overheads(pool, [0, 0, TICKET_LIFE_S / 2]);
      if (first === undefined || later === undefined || renewing === undefined)
        throw new Error("three calls were made");
      return [
        row("first request, with a ticket", first.request, BARS.first, true),
        row("later requests", later.request, BARS.later, false),
        row("reply", later.reply, BARS.reply, false),
        row("reply with a new ticket", renewing.reply, BARS.renewal, true),
      ];
    };
  },
};
