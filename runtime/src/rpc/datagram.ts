import { toHex } from "../codec/hex.ts";

const WITH_TICKET = 0x60;
const WITH_SESSION = 0x61;
const RESPONSE = 0x62;
const TICKET_BYTES = 92;
const SESSION_BYTES = 8;
const COUNTER_BYTES = 8;
const TAG_BYTES = 16;
const PART = 0b1000;
const CONTROL = 0b1_0000;
const KIND = 0b11;
const ACKNOWLEDGEMENT = 1;

/** The part of a request that is not sealed, as far as HTTP needs it (docs/specification/rpc.md, "Datagrams"). */
export interface RequestHead {
  /** Low half of the counter, in hex: no two calls of a client that are under way have the same. */
  readonly call: string;
  /** The tag at the end of the request, in hex, which stands for all of it. */
  readonly tag: string;
  /** Whether it is one packet of many. */
  readonly isPart: boolean;
  /** Whether it controls a call, in place of making one. */
  readonly isControl: boolean;
}

/** Reads the head of a request; `undefined` if a datagram is none. */
export function requestHeadOf(datagram: Uint8Array): RequestHead | undefined {
  const [form, flags = 0] = datagram;
  if (form !== WITH_TICKET && form !== WITH_SESSION) return undefined;
  const counterAt = 2 + (form === WITH_TICKET ? TICKET_BYTES : SESSION_BYTES);
  const isNumbered = (flags & (PART | CONTROL)) !== 0;
  if (datagram.length < counterAt + COUNTER_BYTES + (isNumbered ? 2 : 0) + TAG_BYTES) return undefined;
  return {
    call: toHex(datagram.subarray(counterAt, counterAt + 4)),
    tag: toHex(datagram.subarray(-TAG_BYTES)),
    isPart: (flags & PART) !== 0,
    isControl: (flags & CONTROL) !== 0,
  };
}

/** Whether a datagram says that a request has arrived, and not what came of it. */
export function isAcknowledgement(datagram: Uint8Array): boolean {
  const [form, flags = 0] = datagram;
  return form === RESPONSE && (flags & KIND) === ACKNOWLEDGEMENT;
}
