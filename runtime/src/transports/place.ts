import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { MeshError } from "../codec/code.ts";
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

/** The ports of URLs that name none. */
const DEFAULT_PORTS: Readonly<Record<string, number>> = {
  "ws:": 80,
  "http:": 80,
  "wss:": 443,
  "https:": 443,
};

/** Host and port of an address `scheme://host:port`; throws with what is wrong with another. */
export function placeOf(address: string, scheme: string): Place {
  const url = new URL(address);
  const { protocol, hostname, port, pathname, username, search } = url;
  const isBare = (pathname === "" || pathname === "/") && username === "" && search === "";
  if (protocol !== `${scheme}:` || hostname === "" || !(Number(port) > 0) || !isBare) {
    throw new TypeError(`an address of ${scheme.toUpperCase()} is ${scheme}://host:port`);
  }
  return placeOfUrl(url);
}

/** Host and port of a URL, the port 0 where neither it nor its scheme names one. */
export function placeOfUrl({ protocol, hostname, port }: URL): Place {
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port) || (DEFAULT_PORTS[protocol] ?? 0) };
}

/** Host and port as in a URL. */
export function textOf({ host, port }: Place): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Knows to which IP addresses a dialler may connect. */
export class Permission {
  readonly #allowPrivate: boolean;
  readonly #trusted: ReadonlySet<string>;

  /** What is meant over one of the schemes is not meant over others. */
  constructor(schemes: readonly string[], { allowPrivate = false, bootstrap = [] }: DialOptions) {
    this.#allowPrivate = allowPrivate;
    // One that is no address is told of when it is dialled.
    const given = [bootstrap].flat().flatMap((url) => URL.parse(url) ?? []);
    const urls = given.filter(({ protocol }) => schemes.includes(protocol.slice(0, -1)));
    this.#trusted = new Set(urls.map((url) => textOf(placeOfUrl(url))));
  }

  /** The IP addresses of a place, as many as are tried; throws when it may not be dialled. */
  async resolve(place: Place): Promise<string[]> {
    const { host } = place;
    const found = isIP(host) === 0 ? await lookup(host, { all: true }) : [{ address: host }];
    const isTrusted = this.#allowPrivate || this.#trusted.has(textOf(place));
    // A public name may lead inside: what counts is where the connection would go.
    const allowed = found.filter(({ address }) => isTrusted || isPublic(address));
    if (allowed.length === 0) {
      throw new MeshError("ForbiddenAddress", "a private address: allow private addresses if that is meant");
    }
    return allowed.slice(0, MAX_TRIED).map(({ address }) => address);
  }
}
