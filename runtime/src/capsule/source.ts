import { fromHex } from "../codec/hex.ts";
import { ipOf } from "../transports/ip.ts";

const SOURCE_BYTES = 32;
const PEER_ID = /^[0-9a-f]{64}$/;
/** Where the network of an address ends, in bits from its end: an IPv4 /24 or an IPv6 /56. */
const HOST_BITS = { 32: 8, 128: 72 };

/**
 * From where a request to a replica comes, in 32 bytes, by which the replica tells sources apart: a peer id as it is, of an address the
 * network, an IPv4 /24 or an IPv6 /56, as whoever has one address of it can have the others. Of what is neither there is one source.
 */
export function sourceOf(text: string | undefined): Uint8Array {
  const source = new Uint8Array(SOURCE_BYTES);
  if (text === undefined) return source;
  if (PEER_ID.test(text)) return fromHex(text, SOURCE_BYTES, "a peer id");
  const [bare = ""] = text.split("%");
  const ip = ipOf(bare);
  if (ip === undefined) return source;
  source[0] = ip.widthBits === 32 ? 4 : 6;
  const bytes = (ip.widthBits - HOST_BITS[ip.widthBits]) / 8;
  for (let at = 0; at < bytes; at++) {
    source[at + 1] = Number((ip.value >> BigInt(ip.widthBits - 8 * (at + 1))) & 0xffn);
  }
  return source;
}
