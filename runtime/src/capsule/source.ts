import { fromHex } from "../codec/hex.ts";

const SOURCE_BYTES = 32;
const PEER_ID = /^[0-9a-f]{64}$/;
const IPV4 = /^(?:::ffff:)?(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.\d{1,3}$/i;

/**
 * From where a request to a replica comes, in 32 bytes, by which the replica tells sources apart: a peer id as it is, of an address the
 * network, an IPv4 /24 or an IPv6 /56, as whoever has one address of it can have the others. Of what is neither there is one source.
 */
export function sourceOf(text: string | undefined): Uint8Array {
  const source = new Uint8Array(SOURCE_BYTES);
  if (text === undefined) return source;
  if (PEER_ID.test(text)) return fromHex(text, SOURCE_BYTES, "a peer id");
  const network = ipv4(text) ?? ipv6(text);
  if (network !== undefined) source.set(network);
  return source;
}

function ipv4(text: string): number[] | undefined {
  const octets = IPV4.exec(text)?.slice(1).map(Number);
  return octets?.every((octet) => octet < 256) === true ? [4, ...octets] : undefined;
}

function ipv6(text: string): number[] | undefined {
  const [head = "", tail] = text.split("%")[0]?.split("::") ?? [];
  const groups = (part: string): number[] =>
    part === "" ? [] : part.split(":").map((group) => Number.parseInt(group, 16));
  const [first, last] = [groups(head), groups(tail ?? "")];
  const zeros = 8 - first.length - last.length;
  const all = tail === undefined ? first : [...first, ...Array(Math.max(zeros, 0)).fill(0), ...last];
  if (all.length !== 8 || !all.every((group) => group >= 0 && group < 0x1_0000)) return undefined;
  return [6, ...all.flatMap((group) => [group >> 8, group & 0xff]).slice(0, 7)];
}
