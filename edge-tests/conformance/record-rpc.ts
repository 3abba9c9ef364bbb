import { Conversation, REPLICAS } from "../rpc/conversation.ts";
import { Dice } from "../rpc/dice.ts";
import { GARBAGE } from "../rpc/garbage.ts";
import type { Instances, RpcInstance } from "../rpc/modules.ts";
import { OTHER_SECRET } from "../rpc/replica.ts";
import { ROUTER } from "../rpc/router.ts";
import type { Recording } from "./record.ts";
import { Instance, join, OPERATION } from "./replay.ts";

const SEED = 1;
/** Number of a replica that takes no part in the conversation. */
const NEWCOMER = 4;
const SOME = 200;

/** Machines in slots of one instance; every call of the module is recorded with its answer. */
class RecordedSlots implements Instances {
  readonly script: Uint8Array[] = [];
  readonly transcript: Uint8Array[] = [];
  readonly #instance: Instance;
  #slots = 0;

  constructor(instance: Instance) {
    this.#instance = instance;
  }

  take(): RpcInstance {
    const slot = this.#slots++;
    return {
      memoryBytes: 0,
      create: (config) => this.call(OPERATION.create, slot, config)[0] ?? 0,
      step: (_, batch) => this.call(OPERATION.step, slot, batch),
      destroy: () => {
        this.call(OPERATION.destroy, slot, new Uint8Array());
      },
    };
  }

  give(): void {
    // No slot is used again, so that the script tells one machine from the next.
  }

  call(operation: number, slot: number, payload: Uint8Array): Uint8Array {
    const head = new Uint8Array(6);
    new DataView(head.buffer).setUint32(2, payload.length, true);
    head.set([operation, slot]);
    const answer = this.#instance.run(operation, slot, payload);
    this.script.push(head, payload.slice());
    this.transcript.push(answer);
    return answer;
  }
}

/**
 * Records calls of a client to replicas, straight and through a router, with tickets that are renewed; then what was sent
 * is replayed to everybody, keys are rotated and replaced, a replica is restarted, and wrong bytes arrive at every door.
 */
export async function recordRpc(module: WebAssembly.Module): Promise<Recording> {
  const slots = new RecordedSlots(await Instance.of(module));
  const story: string[] = [];
  const tell = (what: string, is: boolean): void => {
    if (is) story.push(what);
  };
  const conversation = new Conversation(slots, SEED, true);
  tell("called", conversation.problems.length === 0 && conversation.missing.length === 0);

  const dice = new Dice(SEED);
  let executions = conversation.executions;
  for (const to of [...REPLICAS, ROUTER]) conversation.replay(dice.shuffled(conversation.captured), to);
  conversation.replay(conversation.captured, "addressee");
  tell("replayed", conversation.executions > executions && conversation.problems.length === 0);

  executions = conversation.executions;
  conversation.start({ number: 1, notBefore_ms: conversation.world.now_us / 1_000 + 1 });
  conversation.replay(conversation.captured, 1);
  tell("restarted", conversation.executions === executions);

  const newcomer = conversation.start({ number: NEWCOMER });
  conversation.rotate(newcomer, 2);
  conversation.opened = 0;
  conversation.replay(conversation.captured, NEWCOMER);
  tell("rotated", conversation.opened === 0);
  conversation.world.tell(newcomer, [{ type: "SetTicketKeys", secrets: OTHER_SECRET }]);
  let granted = 0;
  newcomer.issue(NEWCOMER, (grant) => {
    granted = grant.length;
  });
  tell("issued", granted > 0);

  executions = conversation.executions;
  wrongBytes(conversation, dice);
  const refused = slots.call(OPERATION.create, 0xff, new Uint8Array([0x80]));
  tell("refused", refused[0] === 0 && conversation.executions === executions);
  conversation.end();
  const script = new Uint8Array(Buffer.concat(slots.script));
  return { script, transcript: join(slots.transcript), story };
}

/** Sends garbage to everybody, and batches that are none. */
function wrongBytes(conversation: Conversation, dice: Dice): void {
  const find = (first: number): Uint8Array =>
    conversation.captured.find(({ bytes }) => bytes[0] === first)?.bytes ?? new Uint8Array(SOME);
  const originals = { withTicket: find(0x60), ofOtherService: find(0x60), ofSession: find(0x61) };
  const { client, world } = conversation;
  for (const to of [client.number, ...REPLICAS, ROUTER]) {
    for (const make of Object.values(GARBAGE)) {
      for (let time = 0; time < 5; time++) {
        world.deliver({ from: NEWCOMER, to, bytes: make(dice, originals) });
      }
    }
  }
  for (const length of [0, 7, 8, 9, 40]) client.machine.stepBatch(dice.bytes(length));
}
