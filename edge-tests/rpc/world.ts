import type { RpcInput, RpcOutput } from "../../runtime/src/codec/rpc.ts";
import { endpointOf, partyAt } from "./address.ts";
import { EventQueue } from "./events.ts";
import type { Machine } from "./machine.ts";

/** When every world begins, in microseconds since 1970. */
export const START_US = 1_800_000_000_000_000;

/** A datagram under way between two parties, each by its number. */
export type Datagram = { readonly from: number; readonly to: number; readonly bytes: Uint8Array };

/** Decides what becomes of a datagram: the delays in microseconds of the copies that arrive, none if it is lost. */
export type Network = (datagram: Datagram) => readonly number[];

/** A machine with the application around it. */
export interface Party {
  /** Number of its address. */
  readonly number: number;
  readonly machine: Machine;
  /** Handles an output other than `Send` and `Wake`; returns the inputs that answer it at once. */
  take(output: RpcOutput): readonly RpcInput[];
}

/** Parties on a network and a virtual clock. */
export class World {
  now_us: number = START_US;
  /** Sees every datagram that is sent, before the network does. */
  onSend: (datagram: Datagram) => void = () => undefined;
  readonly #network: Network;
  readonly #events: EventQueue = new EventQueue();
  readonly #parties: Map<number, Party> = new Map();
  /** Times of the wake-ups in the queue; a machine that asks for a later one is stepped then again. */
  readonly #wakes: WeakMap<Machine, number> = new WeakMap();

  constructor(network: Network) {
    this.#network = network;
  }

  /** Adds a party, in place of an earlier one at its address. */
  add(party: Party): void {
    this.#parties.set(party.number, party);
  }

  /** Ends a party: datagrams to its address are lost. */
  remove(party: Party): void {
    party.machine.end();
    if (this.#parties.get(party.number) === party) this.#parties.delete(party.number);
  }

  /** Ends all parties. */
  end(): void {
    for (const party of this.#parties.values()) party.machine.end();
    this.#parties.clear();
  }

  /** Does something later. */
  after(delay_us: number, run: () => void): void {
    this.#events.add(this.now_us + delay_us, run);
  }

  /** Gives a party inputs at once, until it has nothing more to say; a party that was ended gets none. */
  tell(party: Party, inputs: readonly RpcInput[]): void {
    if (!party.machine.isAlive) return;
    for (let pending = inputs, isFirst = true; isFirst || pending.length > 0; isFirst = false) {
      const answers: RpcInput[] = [];
      for (const output of party.machine.step(this.now_us, pending)) {
        if (output.type === "Send") this.send(party.number, output.target, output.bytes);
        else answers.push(...party.take(output));
      }
      pending = answers;
    }
    this.#wakeLater(party);
  }

  /** Puts a datagram on the network. */
  send(from: number, target: Uint8Array, bytes: Uint8Array): void {
    const datagram = { from, to: partyAt(target), bytes };
    this.onSend(datagram);
    for (const delay_us of this.#network(datagram)) this.after(delay_us, () => this.deliver(datagram));
  }

  /** Gives a datagram to its addressee now. */
  deliver({ from, to, bytes }: Datagram): void {
    const party = this.#parties.get(to);
    if (party !== undefined) this.tell(party, [{ type: "Datagram", source: endpointOf(from), bytes }]);
  }

  /** Lets time pass until then, or until there is nothing left to do, or `isDone`. */
  run(until_us: number, isDone: () => boolean = () => false): void {
    while (!isDone() && this.#events.next_us <= until_us) {
      const event = this.#events.take();
      if (event === undefined) return;
      this.now_us = Math.max(this.now_us, event.at_us);
      event.run();
    }
    if (!isDone() && Number.isFinite(until_us)) this.now_us = Math.max(this.now_us, until_us);
  }

  #wakeLater(party: Party): void {
    const { machine } = party;
    const at_us = Math.max(machine.wake_us, this.now_us + 1);
    if (at_us >= (this.#wakes.get(machine) ?? Number.POSITIVE_INFINITY)) return;
    this.#wakes.set(machine, at_us);
    this.#events.add(at_us, () => {
      if (this.#wakes.get(machine) !== at_us) return;
      this.#wakes.delete(machine);
      if (!machine.isAlive) return;
      if (machine.wake_us <= this.now_us) this.tell(party, []);
      else this.#wakeLater(party);
    });
  }
}
