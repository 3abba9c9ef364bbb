import { MeshError } from "../codec/code.ts";
import { contains, type Ip, ipOf, type Prefix, prefixOf } from "./ip.ts";

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
    this.#prefixes = proxies.map(trustedPrefixOf);
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

function trustedPrefixOf(text: string): Prefix {
  const prefix = typeof text === "string" ? prefixOf(text) : undefined;
  if (prefix !== undefined) return prefix;
  throw new MeshError(
    "BadConfig",
    `trusted proxy ${text} is no address or prefix such as 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32`,
  );
}

/** Whether the core takes an address for this machine, which no quota applies to: a header does not get a client that. */
function isOwn({ widthBits, value }: Ip): boolean {
  return widthBits === 32 ? value >> 24n === 127n : value >> 64n === 0n;
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
  const bare = ipOf(node);
  if (bare !== undefined) return bare;
  const [, v6, v4, port] = /^(?:\[([^\]]*)\]|([^:[\]]*)(?=:))(?::(.*))?$/.exec(node) ?? [];
  if (port !== undefined && !PORT.test(port)) return undefined;
  if (v6 !== undefined) return v6.includes(":") ? ipOf(v6) : undefined;
  return v4 === undefined ? undefined : ipOf(v4);
}
