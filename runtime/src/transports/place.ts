import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { isPublic } from "./public-address.ts";

/** Most IP addresses of one name that are tried. */
const MAX_TRIED = 4;

/** Host and port of an address. */
export interface Place {
  /** Name or IP, an IPv6 address without its brackets. */
  readonly host: string;
  /** The port. */
  readonly port: number;
}

/** What a dialler of places may connect to. */
export interface DialOptions {
  /** Whether private addresses may be dialled. */
  readonly allowPrivate?: boolean | undefined;
  /** URLs that whoever configured them means, wherever they lead. */
  readonly bootstrap?: string | readonly string[] | undefined;
}

/** Host and port of an address `scheme://host:port`; throws with what is wrong with another. */
export function placeOf(address: string, scheme: string): Place {
  const { protocol, hostname, port, pathname, username, search } = new URL(address);
  const isBare = (pathname === "" || pathname === "/") && username === "" && search === "";
  if (protocol !== `${scheme}:` || hostname === "" || !(Number(port) > 0) || !isBare) {
    throw new TypeError(`an address of ${scheme.toUpperCase()} is ${scheme}://host:port`);
  }
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) };
}

/** Host and port as in a URL. */
export function textOf({ host, port }: Place): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Knows to which IP addresses a dialler of one scheme may connect. */
export class Permission {
  readonly #allowPrivate: boolean;
  readonly #trusted: ReadonlySet<string>;

  constructor(scheme: string, { allowPrivate = false, bootstrap = [] }: DialOptions) {
    this.#allowPrivate = allowPrivate;
    // One that is no address is told of when it is dialled.
    this.#trusted = new Set([bootstrap].flat().flatMap((url) => textsOf(url, scheme)));
  }

  /** The IP addresses of a place, as many as are tried; throws when it may not be dialled. */
  async resolve(place: Place): Promise<string[]> {
    const { host } = place;
    const found = isIP(host) === 0 ? await lookup(host, { all: true }) : [{ address: host }];
    const isTrusted = this.#allowPrivate || this.#trusted.has(textOf(place));
    // A public name may lead inside: what counts is where the connection would go.
    const allowed = found.filter(({ address }) => isTrusted || isPublic(address));
    if (allowed.length === 0) {
      throw new Error("a private address: allow private addresses if that is meant");
    }
    return allowed.slice(0, MAX_TRIED).map(({ address }) => address);
  }
}

function textsOf(url: string, scheme: string): string[] {
  try {
    return [textOf(placeOf(url, scheme))];
  } catch {
    return [];
  }
}
