import { decodeRequestHead, MAX_HEAD, type RequestHead } from "../../codec/http.ts";
import { concat } from "../../concat.ts";
import { RpcRefusal } from "../handler.ts";
import { MAX_MESSAGE } from "../limits.ts";
import type { ItemFormat } from "../procedures/source.ts";
import { writeBegin } from "../procedures/wire.ts";

/** The one procedure of a service that carries HTTP. */
export const EXCHANGE = "http";
/** Longest body of a request: with the longest head, and what frames both, the longest message. */
export const MAX_BODY: number = MAX_MESSAGE - MAX_HEAD - 64;
const LENGTH_BYTES = 4;

/** Bytes of an answer, which follow each other as they are. */
export const BYTES: ItemFormat = { encode: (item) => item as Uint8Array, frame: (items) => items };

/** A request as it travels. */
export interface Exchange {
  /** The encoded head. */
  readonly head: Uint8Array;
  /** The body. */
  readonly body: Uint8Array;
}

/** Writes a request. */
export function writeExchange({ head, body }: Exchange): Uint8Array {
  const length = new Uint8Array(LENGTH_BYTES);
  new DataView(length.buffer).setUint32(0, head.length, true);
  return writeBegin(EXCHANGE, concat([length, head, body]));
}

/** Reads a request, and its head; throws a refusal for bytes that are none. */
export function readExchange(bytes: Uint8Array): Exchange & { readonly decoded: RequestHead } {
  try {
    const rest = bytes.subarray(LENGTH_BYTES);
    const length = new DataView(bytes.buffer, bytes.byteOffset, bytes.length).getUint32(0, true);
    if (length > rest.length) throw new RangeError("the head is cut off");
    const head = rest.subarray(0, length);
    return { head, body: rest.subarray(length), decoded: decodeRequestHead(head) };
  } catch {
    throw new RpcRefusal("BadMessage", "the request does not follow the specification of HTTP by RPC");
  }
}
