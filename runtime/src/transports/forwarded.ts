import { isIP } from "node:net";
import { MeshError } from "../codec/code.ts";

/** Characters at the end of a header that are read; room for `MAX_HOPS` elements with all parameters of RFC 7239. */
const MAX_TAIL = 4096;
/** Entries at the end of a header that are read: more proxies than a request passes. */
const MAX_HOPS = 16;
/** Most prefixes of trusted proxies: several times what a large content delivery network publishes. */
const MAX_PREFIXES = 256;
/** What follows an address with a port: a number, or the obfuscated name of one (RFC 7239, section 6). */
const PORT = /^(\d{1,5}|_[\w.-]+)$/;

/** Gives the value of a header, several of one name joined by commas. */
export type HeaderReader = (name: "forwarded" | "x-forwarded-for") => string | null | undefined;

/** An IP address; one of IPv4 that is mapped into IPv6 is of IPv4. */
interface Ip {
  readonly text: string;
  readonly widthBits: 32 | 128;
  readonly value: bigint;
}

/** An address prefix (RFC 4632). */
interface Prefix {
  readonly network: Ip;
  readonly lenBits: number;
}

/**
 * The proxies whose headers `forwarded` (RFC 7239) and `x-forwarded-for` give the client's address. A proxy appends the address
 * that it sees, so everything before that may be a client's invention. Headers are read from their end: nothing that stands
 * further left changes how the proxy's own entry is read.
 */
export class TrustedProxies {
  readonly #prefixes: readonly Prefix[];

  /** Takes addresses and prefixes such as `192.0.2.1`, `10.0.0.0/8` and `2001:db8::/32`. */
  constructor(proxies: readonly string[] = []) {
    if (!Array.isArray(proxies) || proxies.length > MAX_PREFIXES) {
      throw new MeshError(
        "BadConfig",
        `trustedProxies is a list of at most ${MAX_PREFIXES} addresses or prefixes`,
      );
    }
    this.#prefixes = proxies.map(prefixOf);
  }

  /** The address from which a request counts: of a trusted proxy the forwarded one, if its headers name one. */
  source(peer: string, header: HeaderReader): string {
    const proxy = ipOf(peer.replace(/%.*$/, ""));
    if (proxy === undefined || !this.#trusts(proxy)) return peer;
    const forwarded = this.#client(header("forwarded"), forwardedFor);
    const xForwardedFor = this.#client(header("x-forwarded-for"), nodeAddress);
    const client = forwarded ?? xForwardedFor ?? "";
    // A proxy that writes one header may pass on what a client made up in the other.
    return client === "" || (xForwardedFor ?? client) !== client ? peer : client;
  }

  #trusts(ip: Ip): boolean {
    return this.#prefixes.some((prefix) => contains(prefix, ip));
  }

  /** The last address of a list that is not a trusted proxy's; empty if something else stands there. */
  #client(list: string | null | undefined, read: (entry: string) => Ip | undefined): string | undefined {
    if (list === null || list === undefined) return undefined;
    let hops = 0;
    for (const entry of entriesFromEnd(list.slice(-MAX_TAIL), ",", list.length > MAX_TAIL)) {
      const ip = read(entry);
      if (ip === undefined || ++hops > MAX_HOPS) return "";
      if (!this.#trusts(ip)) return isOwn(ip) ? "" : ip.text;
    }
    return "";
  }
}

function prefixOf(text: string): Prefix {
  const [address = "", digits, ...more] = typeof text === "string" ? text.split("/") : [];
  const network = ipOf(address);
  const lenBits =
    digits === undefined ? network?.widthBits : /^\d+$/.test(digits) ? Number(digits) : undefined;
  if (network === undefined || lenBits === undefined || lenBits > network.widthBits || more.length > 0) {
    throw new MeshError(
      "BadConfig",
      `trusted proxy ${text} is no address or prefix such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32`,
    );
  }
  return { network, lenBits };
}

function contains({ network, lenBits }: Prefix, ip: Ip): boolean {
  const hostBits = BigInt(network.widthBits - lenBits);
  return network.widthBits === ip.widthBits && network.value >> hostBits === ip.value >> hostBits;
}

/** Whether the core takes an address for this machine, which no quota applies to: a header does not get a client that. */
function isOwn({ widthBits, value }: Ip): boolean {
  return widthBits === 32 ? value >> 24n === 127n : value >> 64n === 0n;
}

/** An address without brackets, zone and port. */
function ipOf(text: string): Ip | undefined {
  if (text.includes("%") || isIP(text) === 0) return undefined;
  if (isIP(text) === 4)
    return v4Of(text.split(".").reduce((value, byte) => (value << 8n) | BigInt(byte), 0n));
  // A URL writes an address in its one short form, without an IPv4 address at its end.
  const short = new URL(`http://[${text}]`).hostname.slice(1, -1);
  const [head = [], tail = []] = short.split("::").map((part) => (part === "" ? [] : part.split(":")));
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => "0");
  const groups = [...head, ...zeros, ...tail];
  const value = groups.reduce((bits, group) => (bits << 16n) | BigInt(`0x${group}`), 0n);
  return value >> 32n === 0xffffn ? v4Of(value & 0xffff_ffffn) : { text: short, widthBits: 128, value };
}

function v4Of(value: bigint): Ip {
  const text = [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n).join(".");
  return { text, widthBits: 32, value };
}

/**
 * The entries of a list, the last one first, without empty ones. Separators in quoted strings do not count. The first entry of
 * a list that is cut is not whole and is left out.
 */
function* entriesFromEnd(list: string, separator: string, isCut: boolean): Generator<string> {
  for (let end = list.length; end >= 0; ) {
    const at = lastSeparator(list, end, separator);
    if (at < 0 && isCut) return;
    const entry = list.slice(at + 1, end).replace(/^[ \t]+|[ \t]+$/g, "");
    if (entry !== "") yield entry;
    end = at;
  }
}

/** The place of the last separator before `end` outside quoted strings; -1 without one. */
function lastSeparator(list: string, end: number, separator: string): number {
  let isQuoted = false;
  for (let at = end - 1; at >= 0; at--) {
    if (list[at] === separator && !isQuoted) return at;
    if (list[at] === '"' && !isEscaped(list, at)) isQuoted = !isQuoted;
  }
  return -1;
}

/** Whether a character belongs to a quoted pair (RFC 9110, section 5.6.4). */
function isEscaped(list: string, at: number): boolean {
  let first = at;
  while (list[first - 1] === "\\") first--;
  return (at - first) % 2 === 1;
}

/** The address in the one parameter `for` of an element of `forwarded`. */
function forwardedFor(element: string): Ip | undefined {
  const values = [...entriesFromEnd(element, ";", false)].filter((pair) => /^for=/i.test(pair));
  const [value = "", ...more] = values.map((pair) => pair.slice(4));
  return more.length > 0 ? undefined : nodeAddress(value.replace(/^"(.*)"$/, "$1"));
}

/** The address of a node with or without a port: `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`. */
function nodeAddress(node: string): Ip | undefined {
  if (isIP(node) !== 0) return ipOf(node);
  const [, v6, v4, port] = /^(?:\[([^\]]*)\]|([^:[\]]*)(?=:))(?::(.*))?$/.exec(node) ?? [];
  if (port !== undefined && !PORT.test(port)) return undefined;
  if (v6 !== undefined) return isIP(v6) === 6 ? ipOf(v6) : undefined;
  return v4 !== undefined && isIP(v4) === 4 ? ipOf(v4) : undefined;
}
