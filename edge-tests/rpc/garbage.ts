import { endpointOf } from "./address.ts";
import type { Dice } from "./dice.ts";
import { ROUTER } from "./router.ts";

/** Valid datagrams that garbage is made of. */
export type Originals = {
  /** A request with a ticket of the service, and one with a ticket of another service. */
  readonly withTicket: Uint8Array;
  readonly ofOtherService: Uint8Array;
  /** A request of a session that the replica knows. */
  readonly ofSession: Uint8Array;
};

/** Where parts of requests begin: of one with a ticket, and of one of a session. */
const TICKET = 2;
const TICKET_NONCE = 6;
const TICKET_SEALED = 30;
const TICKET_END = 94;
const SEALED_AFTER_TICKET = 102;
const SESSION = 2;
const SESSION_END = 10;
const SEALED_AFTER_SESSION = 18;
const BOUND = 0b100;
const FORWARD_HEAD_BYTES = 53;
const FEEDBACK_BYTES = 35;
const RESPONSE_BYTES = 60;

/** Kinds of datagrams that no replica has a use for, each made by somebody without keys. */
export const GARBAGE: Readonly<Record<string, (dice: Dice, originals: Originals) => Uint8Array>> = {
  "random bytes": (dice) => dice.bytes(dice.between(1, 300)),
  "a random ticket": (dice, { withTicket }) => changed(withTicket, dice, TICKET, TICKET_END),
  "a random ticket with the right key id": (dice, { withTicket }) =>
    changed(withTicket, dice, TICKET_NONCE, TICKET_END),
  "a ticket of another service": (dice, { ofOtherService }) =>
    changed(ofOtherService, dice, SEALED_AFTER_TICKET),
  "a known ticket with other bytes": (dice, { withTicket }) =>
    changed(withTicket, dice, TICKET_SEALED, TICKET_END),
  "a known ticket and a wrong tag": (dice, { withTicket }) => changed(withTicket, dice, SEALED_AFTER_TICKET),
  "a truncated request": (dice, { withTicket, ofSession }) => {
    const whole = dice.pick([withTicket, ofSession]);
    return whole.slice(0, dice.below(whole.length));
  },
  "a session that is not known": (dice, { ofSession }) => changed(ofSession, dice, SESSION, SESSION_END),
  "a known session and a wrong tag": (dice, { ofSession }) => changed(ofSession, dice, SEALED_AFTER_SESSION),
  "a forged forward": (dice, { ofSession }) => {
    const forward = dice.bytes(FORWARD_HEAD_BYTES + ofSession.length);
    forward[0] = 0x64;
    forward.set(endpointOf(ROUTER), 1);
    forward.set(ofSession, FORWARD_HEAD_BYTES);
    return forward;
  },
  "a forged feedback": (dice) => withFirst(0x65, dice.bytes(FEEDBACK_BYTES)),
  "a response": (dice) => withFirst(0x62, dice.bytes(RESPONSE_BYTES)),
};

/** A request that claims to be bound: a replica that does not open it says to which life it would have to be. */
export function boundToNothing(dice: Dice, { ofSession }: Originals): Uint8Array {
  const datagram = changed(ofSession, dice, SEALED_AFTER_SESSION);
  datagram[1] = BOUND;
  return datagram;
}

/** Copies a datagram with random bytes there; counters stay what clients use. */
function changed(
  original: Uint8Array,
  dice: Dice,
  from: number,
  to: number = original.length,
): Uint8Array<ArrayBuffer> {
  const datagram = new Uint8Array(original);
  datagram.set(dice.bytes(to - from), from);
  return datagram;
}

function withFirst(first: number, datagram: Uint8Array): Uint8Array {
  datagram[0] = first;
  return datagram;
}
