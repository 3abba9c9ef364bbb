import { MeshError } from "../codec/code.ts";
import { reasonOf } from "../guard.ts";
import type { Fetch } from "../transports/exchange-dial.ts";
import { sourceOf } from "../transports/shares.ts";
import { Cache } from "./cache.ts";
import { askOverHttps, unreachable } from "./https.ts";
import { AdmissionModule, type Outcome } from "./module.ts";
import { QueryRate } from "./rate.ts";

/** How often name servers are asked, in turn, for one name. */
const TRIES = 3;
/** Time for one of these. */
const TRY_TIMEOUT_MS = 3_000;
/** Most name servers. */
const MAX_SERVERS = 3;
/** What another server knows no better: the zone holds what is no value. */
const FINAL: readonly string[] = ["BadDnsValue", "TooLarge"];

/** Which name servers a resolver asks. */
export interface ResolverOptions {
  /** URL of a resolver over HTTPS (RFC 8484), such as `https://dns.example/dns-query`. */
  readonly url?: string | undefined;
  /** Name servers, `IP:PORT`, at most 3: in Node and Deno, where those of the system are asked unless any are given. */
  readonly servers?: readonly string[] | undefined;
}

/** What DNS holds under a name. */
export interface DnsValues {
  /** The values, in any order; there are several while an old one is replaced, and none when the name has none. */
  readonly values: readonly Uint8Array[];
  /** Whether the resolver says that it has verified them with DNSSEC. */
  readonly isAuthentic: boolean;
}

/** Address and port of a name server. */
export interface ServerPlace {
  readonly ip: string;
  readonly port: number;
}

/** What a platform gives a resolver. */
export interface ResolverPlatform {
  /** The compiled admission.wasm. */
  readonly module: () => Promise<WebAssembly.Module>;
  /** Sends requests over HTTP. */
  readonly fetch: Fetch;
  /** UDP and TCP; `undefined` in Workers and browsers. */
  readonly plain: PlainPlatform | undefined;
}

/** UDP and TCP where a platform has them. */
export interface PlainPlatform {
  /** The name servers of the system, `IP` or `IP:PORT`. */
  readonly systemServers: () => readonly string[];
  /** Asks a name server for a name. */
  readonly ask: (
    module: AdmissionModule,
    server: ServerPlace,
    name: string,
    signal: AbortSignal,
  ) => Promise<Outcome>;
}

/** What tells a resolver the time. */
export interface ResolverClock {
  /** Milliseconds since some moment. */
  readonly now_ms: () => number;
  /** Returns a signal that comes after so long. */
  readonly timeout: (ms: number) => AbortSignal;
}

/** Asks for a name; `index` counts the tries. */
type Ask = (name: string, index: number, signal: AbortSignal) => Promise<Outcome>;

const CLOCK: ResolverClock = {
  now_ms: () => Date.now(),
  timeout: (ms) => AbortSignal.timeout(ms),
};
const NOTHING: DnsValues = { values: [], isAuthentic: false };

/** Looks up certificates in DNS, and remembers them for as long as the zone says. */
export class Resolver {
  readonly #module: AdmissionModule;
  readonly #ask: Ask;
  readonly #servers: string;
  readonly #clock: ResolverClock;
  /** Only names that the authority has filled. */
  readonly #found: Cache<DnsValues> = new Cache();
  /** Apart, so that names that strangers make up push out none that has values. */
  readonly #absent: Cache<DnsValues> = new Cache();
  readonly #rate: QueryRate = new QueryRate();
  /** Names that are being looked up: all who ask for one meanwhile get the same answer. */
  readonly #lookups: Map<string, Promise<DnsValues>> = new Map();

  constructor(options: ResolverOptions, platform: ResolverPlatform, clock: ResolverClock = CLOCK) {
    this.#module = new AdmissionModule(platform.module);
    this.#clock = clock;
    const { ask, servers } = waysOf(options, platform, this.#module);
    this.#ask = ask;
    this.#servers = servers;
  }

  /** Returns the certificates of the peer that has this public key, in a network's domain. */
  async certificates(publicKey: Uint8Array, domain: string): Promise<DnsValues> {
    return this.#lookUp(await this.#module.peerName(publicKey, domain), undefined);
  }

  /**
   * Returns the certificates of a peer that nobody vouches for and that wrote from this IP address. Its network, IPv4 /24 or IPv6 /56,
   * and all such peers together cause a few queries a second; throws `TooManyRequests` beyond that.
   */
  async certificatesOfStranger(publicKey: Uint8Array, domain: string, source: string): Promise<DnsValues> {
    return this.#lookUp(await this.#module.peerName(publicKey, domain), { network: sourceOf(source) });
  }

  /** Returns the keys of the authority of a network's domain. */
  async authorityKeys(domain: string): Promise<DnsValues> {
    return this.#lookUp(await this.#module.authorityName(domain), undefined);
  }

  async #lookUp(name: string, stranger: { network: string | undefined } | undefined): Promise<DnsValues> {
    const now_ms = this.#clock.now_ms();
    const known = this.#found.get(name, now_ms) ?? this.#absent.get(name, now_ms);
    if (known !== undefined) return known;
    const underWay = this.#lookups.get(name);
    if (underWay !== undefined) return underWay;
    if (stranger !== undefined && !this.#rate.take(stranger.network, now_ms))
      throw new MeshError(
        "TooManyRequests",
        "too many unknown peers have to be looked up: try again in a minute",
      );
    const lookup = this.#answer(name, stranger?.network).finally(() => this.#lookups.delete(name));
    this.#lookups.set(name, lookup);
    return lookup;
  }

  /** Asks for a name and keeps the answer. */
  async #answer(name: string, network: string | undefined): Promise<DnsValues> {
    const outcome = await this.#askInTurn(name);
    const now_ms = this.#clock.now_ms();
    if (outcome.type === "Truncated") throw new MeshError("BadDnsMessage");
    const until_ms = now_ms + outcome.ttl_s * 1000;
    if (outcome.type === "Absent") {
      this.#found.delete(name);
      this.#absent.set(name, { known: NOTHING, until_ms, network }, now_ms);
      return NOTHING;
    }
    const { values, isAuthentic } = outcome;
    const known = { values, isAuthentic };
    this.#absent.delete(name);
    this.#found.set(name, { known, until_ms, network: undefined }, now_ms);
    return known;
  }

  async #askInTurn(name: string): Promise<Outcome> {
    let last: MeshError | undefined;
    for (let index = 0; index < TRIES; index++) {
      const signal = this.#clock.timeout(TRY_TIMEOUT_MS);
      try {
        return await this.#ask(name, index, signal);
      } catch (error) {
        if (error instanceof MeshError && FINAL.includes(error.name)) throw error;
        if (!signal.aborted) last = errorOf(error, this.#servers);
      }
    }
    const servers = this.#servers;
    throw last ?? new MeshError("TimedOut", `no answer from the name server ${servers} after ${TRIES} tries`);
  }
}

function errorOf(error: unknown, servers: string): MeshError {
  if (error instanceof MeshError) return error;
  return unreachable(servers, reasonOf(error), error);
}

function waysOf(
  { url, servers }: ResolverOptions,
  { fetch, plain }: ResolverPlatform,
  module: AdmissionModule,
): { readonly ask: Ask; readonly servers: string } {
  if (url !== undefined) {
    const protocol = URL.parse(url)?.protocol;
    if (servers !== undefined || (protocol !== "https:" && protocol !== "http:"))
      throw new MeshError("BadConfig", `"${url}" is no URL such as https://dns.example/dns-query, alone`);
    const ask: Ask = (name, _index, signal) => askOverHttps(module, fetch, url, name, signal);
    return { ask, servers: url };
  }
  if (plain === undefined)
    throw new MeshError("BadConfig", "this platform has no UDP: give the URL of a resolver over HTTPS");
  const places = (servers ?? plain.systemServers().slice(0, MAX_SERVERS)).map(placeOf);
  if (places.length === 0 || places.length > MAX_SERVERS)
    throw new MeshError("BadConfig", `a resolver needs 1 to ${MAX_SERVERS} name servers`);
  const ask: Ask = (name, index, signal) =>
    plain.ask(module, places[index % places.length] as ServerPlace, name, signal);
  return { ask, servers: places.map(({ ip, port }) => `${ip}:${port}`).join(", ") };
}

/** Reads `IP:PORT`, `[IP]:PORT` or an IP address alone. */
function placeOf(text: string): ServerPlace {
  const [, v6, v6Port, v4, v4Port, alone] =
    /^(?:\[([0-9a-f:.]+)\](?::(\d{1,5}))?|([\d.]+)(?::(\d{1,5}))?|([0-9a-f:]+))$/i.exec(text) ?? [];
  const ip = v6 ?? v4 ?? alone;
  const port = Number(v6Port ?? v4Port ?? 53);
  if (ip === undefined || port < 1 || port > 65_535)
    throw new MeshError("BadConfig", `"${text}" is no name server such as 9.9.9.9:53`);
  return { ip, port };
}
