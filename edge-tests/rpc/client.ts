import { codeName } from "../../runtime/src/codec/code.ts";
import {
  encodeRpcClientConfig,
  IDEMPOTENT,
  type RpcInput,
  type RpcOutput,
} from "../../runtime/src/codec/rpc.ts";
import { endpointOf } from "./address.ts";
import { answerOf, type Call, isSame, requestOf } from "./calls.ts";
import { Machine } from "./machine.ts";
import type { Instances } from "./modules.ts";
import { DATAGRAM_BYTES, type Replica } from "./replica.ts";
import type { Party, World } from "./world.ts";

/** Number of the client's address. */
export const CLIENT = 0;
const SERVICE = 3;
/** A session of the mesh takes about two round trips. */
const TICKET_DELAY_US = 2_000;

/** How a call ended: `Done`, or the name of its error. */
export type Outcome = string;

/** How a call is made beyond what it says of itself. */
export type CallOptions = { readonly target: number; readonly timeout_ms: number; readonly policy?: number };

/** A client of one service. */
export class Client implements Party {
  readonly number: number;
  readonly machine: Machine;
  /** How each call ended that has ended. */
  readonly outcomes: Map<number, Outcome> = new Map();
  /** What should not have happened. */
  readonly problems: string[] = [];
  /** How many tickets were asked for. */
  ticketsWanted = 0;
  /** Called when a call has ended. */
  onEnd: (call: Call) => void = () => undefined;
  readonly #world: World;
  readonly #issuer: () => Replica | undefined;
  readonly #calls: Map<number, Call> = new Map();

  /** Gets its tickets from the replica that `issuer` names. */
  constructor(world: World, pool: Instances, issuer: () => Replica | undefined, number: number = CLIENT) {
    this.number = number;
    this.#world = world;
    this.#issuer = issuer;
    this.machine = new Machine(pool, encodeRpcClientConfig(DATAGRAM_BYTES));
    world.add(this);
  }

  /** How many calls are under way. */
  get underWay(): number {
    return this.#calls.size - this.outcomes.size;
  }

  /** Begins a call. */
  call(call: Call, { target, timeout_ms, policy = 0 }: CallOptions): void {
    this.#calls.set(call.number, call);
    this.#world.tell(this, [
      {
        type: "Call",
        call: call.number,
        service: SERVICE,
        target: endpointOf(target),
        options: policy | (call.isIdempotent ? IDEMPOTENT : 0),
        timeout_ms,
        payload: requestOf(call),
      },
    ]);
  }

  take(output: RpcOutput): readonly RpcInput[] {
    switch (output.type) {
      case "Done":
        this.#end(output.call, "Done", output.payload);
        return [];
      case "Failed":
        this.#end(output.call, codeName(output.code) ?? `the unknown code ${output.code}`, undefined);
        return [];
      case "TicketWanted":
        this.ticketsWanted += 1;
        this.#world.after(TICKET_DELAY_US, () => this.#fetchTicket());
        return [];
      default:
        throw new Error(`a client said ${output.type}`);
    }
  }

  /** Uses a ticket from now on; an empty one says that there is none. */
  useTicket(grant: Uint8Array): void {
    this.#world.tell(this, [{ type: "UseTicket", service: SERVICE, grant }]);
  }

  #fetchTicket(): void {
    const issuer = this.#issuer();
    if (issuer === undefined) this.useTicket(new Uint8Array());
    else issuer.issue(this.number, (grant) => this.useTicket(grant));
  }

  #end(number: number, outcome: Outcome, payload: Uint8Array | undefined): void {
    const call = this.#calls.get(number);
    if (call === undefined) {
      this.problems.push(`call ${number} ended with ${outcome}, and was never made`);
      return;
    }
    const before = this.outcomes.get(number);
    if (before !== undefined)
      this.problems.push(`call ${number} ended with ${before}, and then with ${outcome}`);
    if (payload !== undefined && !isSame(payload, answerOf(call)))
      this.problems.push(`the answer to call ${number} is not the one that was given`);
    this.outcomes.set(number, outcome);
    this.onEnd(call);
  }
}
