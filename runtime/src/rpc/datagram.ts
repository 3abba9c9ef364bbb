import { toHex } from "../codec/hex.ts";

const WITH_TICKET = 0x60;
const WITH_SESSION = 0x61;
const RESPONSE = 0x62;
const TICKET_BYTES = 92;
const SESSION_BYTES = 8;
const COUNTER_BYTES = 8;
const TAG_BYTES = 16;
const CALL_BYTES = 4;
const EPOCH_BYTES = 8;
const REJECTION = 0x63;
/** Number of the control packet that cancels. */
const CANCEL_PACKET = 0xffff;
const PART = 0b1000;
const CONTROL = 0b1_0000;
const KIND = 0b11;
const ACKNOWLEDGEMENT = 1;

/** The part of a request that is not sealed, as far as streams need it (docs/specification/rpc.md, "Datagrams"). */
export interface RequestHead {
  /** Low half of the counter, in hex: no two calls of a client that are under way have the same. */
  readonly call: string;
  /** The tag at the end of the request, in hex, which stands for all of it to who has sealed it. */
  readonly tag: string;
  /** What is not sealed and the tag, in hex: nobody else seals a request of which they are the same. */
  readonly id: string;
  /** Whether it is one packet of many. */
  readonly isPart: boolean;
  /** Whether it controls a call, in place of making one. */
  readonly isControl: boolean;
  /** Whether it gives a call up. */
  readonly isCancel: boolean;
}

/** The part of a response that is not sealed, as far as streams need it. */
export interface ResponseHead {
  /** The call of the request. */
  readonly call: string;
  /** Whether nothing follows it. */
  readonly isFinal: boolean;
}

/** Reads the head of a request; `undefined` if a datagram is none. */
export function requestHeadOf(datagram: Uint8Array): RequestHead | undefined {
  const [form, flags = 0] = datagram;
  if (form !== WITH_TICKET && form !== WITH_SESSION) return undefined;
  const counterAt = 2 + (form === WITH_TICKET ? TICKET_BYTES : SESSION_BYTES);
  const packetAt = counterAt + COUNTER_BYTES;
  const isNumbered = (flags & (PART | CONTROL)) !== 0;
  if (datagram.length < packetAt + (isNumbered ? 2 : 0) + TAG_BYTES) return undefined;
  const tag = toHex(datagram.subarray(-TAG_BYTES));
  const packet = (datagram[packetAt] ?? 0) | ((datagram[packetAt + 1] ?? 0) << 8);
  const isControl = (flags & CONTROL) !== 0;
  return {
    call: toHex(datagram.subarray(counterAt, counterAt + CALL_BYTES)),
    tag,
    id: toHex(datagram.subarray(0, packetAt)) + tag,
    isPart: (flags & PART) !== 0,
    isControl,
    isCancel: isControl && packet === CANCEL_PACKET,
  };
}

/** Reads the head of a response or of a rejection; `undefined` if a datagram is neither. */
export function responseHeadOf(datagram: Uint8Array): ResponseHead | undefined {
  const [form, flags = 0] = datagram;
  if (form !== RESPONSE && form !== REJECTION) return undefined;
  const callAt = form === RESPONSE ? 2 + EPOCH_BYTES : 2;
  if (datagram.length < callAt + CALL_BYTES + TAG_BYTES) return undefined;
  const isFinal = form === REJECTION || ((flags & KIND) !== ACKNOWLEDGEMENT && (flags & PART) === 0);
  return { call: toHex(datagram.subarray(callAt, callAt + CALL_BYTES)), isFinal };
}

/** Whether a datagram says that a request has arrived, and not what came of it. */
export function isAcknowledgement(datagram: Uint8Array): boolean {
  const [form, flags = 0] = datagram;
  return form === RESPONSE && (flags & KIND) === ACKNOWLEDGEMENT;
}
