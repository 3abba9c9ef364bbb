import { InputBatch, readItems } from "../../runtime/src/codec/batch.ts";
import { type RpcInput, type RpcOutput, rpcInputCodec, rpcOutputCodec } from "../../runtime/src/codec/rpc.ts";
import { endpointOf } from "./address.ts";
import { answerOf, callOf } from "./calls.ts";
import { CLIENT, Client } from "./client.ts";
import { Dice } from "./dice.ts";
import type { InstancePool } from "./modules.ts";
import { Replica } from "./replica.ts";
import { World } from "./world.ts";

/** Bytes of a request and of its answer. */
const BODY_BYTES = 64;
const ADDRESS = 1;
const SECOND_US = 1_000_000;
const TIMEOUT_MS = 600_000;

/** A client and a replica on a network that carries nothing: what they send is kept and handed over in batches. */
export class HeldPair {
  readonly replica: Replica;
  readonly client: Client;
  readonly #world: World;
  #toReplica: Uint8Array[] = [];
  #next = 1;

  constructor(pool: InstancePool, seed: number, ticketSecrets?: Uint8Array) {
    this.#world = new World(() => []);
    const entropy = new Dice(seed).bytes(32);
    const settings = { number: ADDRESS, entropy, ...(ticketSecrets && { ticketSecrets }) };
    this.replica = new Replica(this.#world, pool, settings);
    this.client = new Client(this.#world, pool, () => this.replica);
    this.#world.onSend = ({ to, bytes }) => {
      if (to === ADDRESS) this.#toReplica.push(bytes.slice());
    };
  }

  /** The time of the pair's world. */
  get now_us(): number {
    return this.#world.now_us;
  }

  /** Makes calls and returns their requests. */
  requests(count: number): Uint8Array[] {
    this.#toReplica = [];
    for (let made = 0; made < count; made++) {
      const call = {
        number: this.#next++,
        isIdempotent: true,
        requestBytes: BODY_BYTES,
        answerBytes: BODY_BYTES,
      };
      this.client.call(call, { target: ADDRESS, timeout_ms: TIMEOUT_MS });
    }
    // The first call waits for a ticket.
    if (this.#toReplica.length < count) this.#world.run(this.now_us + SECOND_US / 10);
    return this.#toReplica;
  }

  /** Makes calls under a ticket of its own each, and returns their requests. */
  firstRequests(count: number): Uint8Array[] {
    return Array.from({ length: count }, () => {
      this.replica.issue(CLIENT, (grant) => this.client.useTicket(grant));
      const [request] = this.requests(1);
      if (request === undefined) throw new Error("a call with a ticket was not sent");
      return request;
    });
  }

  /** Ends both machines. */
  end(): void {
    this.#world.end();
  }

  /** Has a batch of datagrams from an address ready for the replica. */
  batchOf(datagrams: readonly Uint8Array[], from: number = CLIENT): Uint8Array {
    const source = endpointOf(from);
    return this.batch(datagrams.map((bytes) => ({ type: "Datagram", source, bytes })));
  }

  /** Has a batch of inputs ready. */
  batch(inputs: readonly RpcInput[]): Uint8Array {
    const batch = new InputBatch<RpcInput>(rpcInputCodec);
    for (const input of inputs) batch.push(input);
    return batch.finish(this.now_us);
  }

  /** Returns the answers to the calls in a batch of outputs of the replica, as a batch for it. */
  answersTo(outputs: Uint8Array): Uint8Array {
    const serves = decode(outputs).filter((output) => output.type === "Serve");
    return this.batch(
      serves.map(({ call, payload }) => ({ type: "Answer", call, payload: answerOf(callOf(payload)) })),
    );
  }

  /** Gives the client what the replica sent. */
  deliver(outputs: Uint8Array): void {
    const source = endpointOf(ADDRESS);
    const sends = decode(outputs).filter((output) => output.type === "Send");
    this.#world.tell(
      this.client,
      sends.map(({ bytes }) => ({ type: "Datagram", source, bytes })),
    );
  }

  /** Carries calls out: serves requests and gives the client the answers. */
  serve(requests: readonly Uint8Array[]): void {
    const { machine } = this.replica;
    this.deliver(machine.stepBatch(this.answersTo(machine.stepBatch(this.batchOf(requests)))));
  }
}

/** Decodes a batch of outputs. */
export function decode(outputs: Uint8Array): RpcOutput[] {
  return readItems(outputs).map((item) => rpcOutputCodec.decode(item));
}
