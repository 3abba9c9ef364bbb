import type { Call } from "./calls.ts";
import { Client } from "./client.ts";
import { Dice } from "./dice.ts";
import type { Instances } from "./modules.ts";
import { Replica, type ReplicaSettings, ticketSecretsOf } from "./replica.ts";
import { ROUTER, Router } from "./router.ts";
import { type Datagram, World } from "./world.ts";

/** Machines of a conversation: a client, a router, three replicas. */
export const MACHINES = 5;

/** The replicas that take part; replica 3 gets forwards alone. */
export const REPLICAS = [1, 2, 3] as const;
/** Tickets are renewed when half of this is over. */
const TICKET_LIFE_S = 60;
const SECOND_US = 1_000_000;
const DELAY_US = 200;
/** Calls before and after half of the ticket's life: of the former copies are old, of the latter they come in time. */
const CALLS = 20;
const BETWEEN_CALLS_US = SECOND_US / 10;

/** First byte of a response. */
const RESPONSE = 0x62;
/** Bits of the flags of a request, and of a response. */
const BOUND = 0b100;
const PART = 0b1000;
const CONTROL = 0b10000;
const TICKET = 0b100;
const ANSWER_IS_ACKNOWLEDGEMENT = 1;

/** Who gets a captured datagram: the party that it was for, unless that is the router, or another one. */
export type Addressee = "addressee" | number;

/** Kinds of datagrams, each by what it looks like. */
const KINDS: Readonly<Record<string, (first: number, flags: number) => boolean>> = {
  "first request with a ticket": (first, flags) => first === 0x60 && (flags & (PART | CONTROL | BOUND)) === 0,
  "request of a session": (first, flags) => first === 0x61 && (flags & (PART | CONTROL | BOUND)) === 0,
  "bound request": (first, flags) => first === 0x61 && (flags & BOUND) !== 0,
  "packet of a request of many": (first, flags) => first <= 0x61 && (flags & PART) !== 0,
  "control packet": (first, flags) => first <= 0x61 && (flags & CONTROL) !== 0,
  answer: (first, flags) => first === 0x62 && (flags & 0b11) === 0,
  acknowledgement: (first, flags) => first === 0x62 && (flags & 0b11) === ANSWER_IS_ACKNOWLEDGEMENT,
  "answer with a new ticket": (first, flags) => first === 0x62 && (flags & TICKET) !== 0,
  "packet of an answer of many": (first, flags) => first === 0x62 && (flags & PART) !== 0,
  forward: (first) => first === 0x64,
  feedback: (first) => first === 0x65,
};

/** A world in which calls of all kinds were made, and all that was sent. */
export class Conversation {
  readonly world: World;
  readonly calls: Call[] = [];
  /** All datagrams in the order in which they were sent. */
  readonly captured: Datagram[] = [];
  /** The lives of replicas, the earlier ones of an address included. */
  readonly lives: Replica[] = [];
  readonly client: Client;
  /** Sealed responses since the end of the conversation: so many datagrams were opened. */
  opened = 0;
  readonly #pool: Instances;
  readonly #dice: Dice;
  readonly #idempotent: boolean;
  #isRecording = true;

  /** Records a conversation with a service that carries out idempotent calls at once, or binds all. */
  constructor(pool: Instances, seed: number, idempotent: boolean) {
    this.#pool = pool;
    this.#dice = new Dice(seed);
    this.#idempotent = idempotent;
    // Afterwards nothing arrives but what a router passes on.
    this.world = new World(({ from }) => (this.#isRecording || from === ROUTER ? [DELAY_US] : []));
    this.world.onSend = ({ from, to, bytes }) => {
      if (this.#isRecording) this.captured.push({ from, to, bytes: bytes.slice() });
      else if (bytes[0] === RESPONSE) this.opened += 1;
    };
    for (const number of REPLICAS) this.start({ number });
    const [first] = this.lives;
    this.client = new Client(this.world, pool, () => first);
    const entropy = this.#dice.bytes(32);
    new Router(this.world, pool, { servers: [...REPLICAS], selection: "roundRobin", entropy });
    this.#talk();
    this.#isRecording = false;
  }

  /** The life of each replica that runs. */
  get running(): Replica[] {
    return this.lives.filter(({ machine }) => machine.isAlive);
  }

  /** Kinds of datagrams that were not recorded; nothing is worth replaying without them. */
  get missing(): string[] {
    return Object.entries(KINDS)
      .filter(([, isOf]) => !this.captured.some(({ bytes }) => isOf(bytes[0] ?? 0, bytes[1] ?? 0)))
      .map(([kind]) => `no ${kind} was recorded`);
  }

  /** Starts a replica, in place of what runs at its address. */
  start(settings: Omit<ReplicaSettings, "entropy">): Replica {
    const before = this.running.find(({ number }) => number === settings.number);
    if (before !== undefined) this.world.remove(before);
    const replica = new Replica(this.world, this.#pool, {
      ticketLife_s: TICKET_LIFE_S,
      idempotent: this.#idempotent,
      ...settings,
      entropy: this.#dice.bytes(32),
    });
    this.lives.push(replica);
    return replica;
  }

  /** Gives a replica the ticket keys that are good after so many rotations. */
  rotate(replica: Replica, rotations: number): void {
    this.world.tell(replica, [{ type: "SetTicketKeys", secrets: ticketSecretsOf(rotations) }]);
  }

  /** Gives each datagram to a party, or to its addressee; answers lead nowhere. */
  replay(datagrams: readonly Datagram[], to: Addressee): void {
    for (const datagram of datagrams) {
      if (to !== "addressee") this.world.deliver({ ...datagram, to });
      else if (datagram.to !== ROUTER) this.world.deliver(datagram);
    }
    this.world.run(this.world.now_us + DELAY_US);
  }

  /** Calls that were carried out more often than they may be. */
  get problems(): string[] {
    const repeated = this.calls.flatMap(({ number, isIdempotent }) => {
      const counts = this.lives.map((life) => life.executed.get(number) ?? 0);
      const sum = counts.reduce((all, one) => all + one, 0);
      if (!isIdempotent && sum !== 1) return [`call ${number}, not idempotent, was carried out ${sum} times`];
      return Math.max(...counts) > 1 ? [`a replica carried call ${number} out more than once`] : [];
    });
    return [...repeated, ...this.client.problems];
  }

  /** How many calls were carried out by all lives. */
  get executions(): number {
    return this.lives.reduce((sum, life) => sum + life.executions, 0);
  }

  /** Ends all machines. */
  end(): void {
    this.world.end();
  }

  /** Makes calls until half of the ticket's life is over, and then as many under a new one. */
  #talk(): void {
    this.#call(1, CALLS);
    this.world.run(this.world.now_us + (TICKET_LIFE_S / 2) * SECOND_US);
    this.#call(CALLS + 1, 2 * CALLS);
  }

  /** Makes calls, each after the one before has ended. */
  #call(first: number, last: number): void {
    const dice = this.#dice;
    for (let number = first; number <= last; number++) {
      const size = (): number => (number % 5 === 0 ? dice.between(2_000, 9_000) : dice.between(9, 100));
      const call = { number, isIdempotent: number % 3 !== 0, requestBytes: size(), answerBytes: size() };
      this.calls.push(call);
      this.client.call(call, { target: dice.pick([1, 2, ROUTER]), timeout_ms: 10_000 });
      this.world.run(this.world.now_us + BETWEEN_CALLS_US);
      const outcome = this.client.outcomes.get(number);
      if (outcome !== "Done") throw new Error(`call ${number} of the conversation ended with ${outcome}`);
    }
  }
}
