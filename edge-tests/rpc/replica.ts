import {
  encodeRpcServerConfig,
  type RpcInput,
  type RpcOutput,
  type RpcServerConfig,
} from "../../runtime/src/codec/rpc.ts";
import { endpointOf } from "./address.ts";
import { answerOf, type Call, callOf } from "./calls.ts";
import { Machine } from "./machine.ts";
import type { Instances } from "./modules.ts";
import type { Party, World } from "./world.ts";

/** Peer id of the only caller. */
export const CALLER: Uint8Array<ArrayBuffer> = new Uint8Array(32).fill(7);
/** Secret of another service than that of the tests. */
export const OTHER_SECRET: Uint8Array<ArrayBuffer> = new Uint8Array(32).fill(2);
/** Secret of routers and replicas. */
export const ROUTER_SECRET: Uint8Array<ArrayBuffer> = new Uint8Array(32).fill(3);

/** Returns the secrets of the current, the next and the previous ticket key after so many rotations. */
export function ticketSecretsOf(rotations: number): Uint8Array {
  const numbers = [rotations, rotations + 1, ...(rotations > 0 ? [rotations - 1] : [])];
  return Uint8Array.from(numbers.flatMap((number) => Array.from<number>({ length: 32 }).fill(100 + number)));
}

/** Largest datagram of clients and replicas. */
export const DATAGRAM_BYTES = 1200;

type Serve = Extract<RpcOutput, { type: "Serve" }>;

/** What a replica's application does with a call: how long it takes, and the error with which it refuses it. */
export type Handling = { readonly after_us: number; readonly refusal?: number };

/** How a replica is set up beyond what all have in common. */
export type ReplicaSettings = {
  readonly number: number;
  /** Another one for each life. */
  readonly entropy: Uint8Array;
  readonly handle?: (call: Call) => Handling;
} & Partial<Omit<RpcServerConfig, "entropy">>;

const AT_ONCE: Handling = { after_us: 0 };

/** One life of a replica, with the calls that it carried out. */
export class Replica implements Party {
  readonly number: number;
  readonly machine: Machine;
  /** How often each call was carried out, by its number. */
  readonly executed: Map<number, number> = new Map();
  /** Numbers of calls that were refused. */
  readonly refused: Set<number> = new Set();
  /** How many calls are being carried out. */
  open = 0;
  readonly #world: World;
  readonly #handle: (call: Call) => Handling;
  readonly #waiting: Map<number, (grant: Uint8Array) => void> = new Map();
  #nextTag = 0;

  constructor(world: World, pool: Instances, settings: ReplicaSettings) {
    const { number, handle, entropy, ...config } = settings;
    this.number = number;
    this.#world = world;
    this.#handle = handle ?? (() => AT_ONCE);
    const whole = encodeRpcServerConfig({
      network: new Uint8Array([110]),
      service: new Uint8Array([115]),
      ticketSecrets: ticketSecretsOf(0),
      routerSecret: ROUTER_SECRET,
      datagramBytes: DATAGRAM_BYTES,
      streams: false,
      ticketLife_s: 3600,
      idempotent: true,
      notBefore_ms: 0,
      ...config,
      entropy,
    });
    this.machine = new Machine(pool, whole);
    world.add(this);
  }

  /** How many calls were carried out, repetitions included. */
  get executions(): number {
    return [...this.executed.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Issues a ticket to the caller at the address of a party. */
  issue(client: number, then: (grant: Uint8Array) => void): void {
    const tag = this.#nextTag++;
    this.#waiting.set(tag, then);
    this.#world.tell(this, [{ type: "IssueTicket", tag, caller: CALLER, endpoint: endpointOf(client) }]);
  }

  take(output: RpcOutput): readonly RpcInput[] {
    switch (output.type) {
      case "Serve":
        return this.#serve(output);
      case "Issued":
        this.#waiting.get(output.tag)?.(output.grant.slice());
        this.#waiting.delete(output.tag);
        return [];
      case "Cancelled":
        return [];
      default:
        throw new Error(`a replica said ${output.type}`);
    }
  }

  #serve({ call: number, payload }: Serve): readonly RpcInput[] {
    const call = callOf(payload);
    const { after_us, refusal } = this.#handle(call);
    let answer: RpcInput = { type: "Refuse", call: number, code: refusal ?? 0 };
    if (refusal !== undefined) {
      this.refused.add(call.number);
    } else {
      this.executed.set(call.number, (this.executed.get(call.number) ?? 0) + 1);
      answer = { type: "Answer", call: number, payload: answerOf(call) };
    }
    if (after_us === 0) return [answer];
    this.open += 1;
    this.#world.after(after_us, () => {
      this.open -= 1;
      this.#world.tell(this, [answer]);
    });
    return [];
  }
}
