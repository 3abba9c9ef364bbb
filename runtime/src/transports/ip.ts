// Without `node:net`, which a Worker has only under a compatibility flag.

/** An IP address; one of IPv4 that is mapped into IPv6 is of IPv4. */
export interface Ip {
  readonly text: string;
  readonly widthBits: 32 | 128;
  readonly value: bigint;
}

/** An address prefix (RFC 4632). */
export interface Prefix {
  readonly network: Ip;
  readonly lenBits: number;
}

const OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const IPV4: RegExp = /* @__PURE__ */ new RegExp(`^${OCTET}(?:\\.${OCTET}){3}$`);
/** The letters of an IPv6 address: none of them means anything else in a URL. */
const IPV6 = /^[0-9a-f:.]{2,45}$/i;

/** Parses an address without brackets, zone and port. */
export function ipOf(text: string): Ip | undefined {
  if (IPV4.test(text)) return v4Of(text.split(".").reduce((value, byte) => (value << 8n) | BigInt(byte), 0n));
  const url = `http://[${text}]`;
  if (!IPV6.test(text) || !URL.canParse(url)) return undefined;
  // A URL writes an address in its one short form, without an IPv4 address at its end.
  const short = new URL(url).hostname.slice(1, -1);
  const [head = [], tail = []] = short.split("::").map((part) => (part === "" ? [] : part.split(":")));
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => "0");
  const groups = [...head, ...zeros, ...tail];
  const value = groups.reduce((bits, group) => (bits << 16n) | BigInt(`0x${group}`), 0n);
  return value >> 32n === 0xffffn ? v4Of(value) : { text: short, widthBits: 128, value };
}

/** Returns the IPv4 address in the last 32 bits. */
export function v4Of(bits: bigint): Ip {
  const value = bits & 0xffff_ffffn;
  const text = [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n).join(".");
  return { text, widthBits: 32, value };
}

/** Parses an address or a prefix such as `192.0.2.1`, `10.0.0.0/8` and `2001:db8::/32`. */
export function prefixOf(text: string): Prefix | undefined {
  const [address = "", digits, ...more] = text.split("/");
  const network = ipOf(address);
  const lenBits =
    digits === undefined ? network?.widthBits : /^\d+$/.test(digits) ? Number(digits) : undefined;
  if (network === undefined || lenBits === undefined || lenBits > network.widthBits || more.length > 0)
    return undefined;
  return { network, lenBits };
}

/** Whether an address lies in a prefix. */
export function contains({ network, lenBits }: Prefix, ip: Ip): boolean {
  const hostBits = BigInt(network.widthBits - lenBits);
  return network.widthBits === ip.widthBits && network.value >> hostBits === ip.value >> hostBits;
}
