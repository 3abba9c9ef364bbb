import { MeshError } from "../codec/code.ts";
import type { Role } from "../codec/config.ts";
import { fromHex } from "../codec/hex.ts";
import type { StoreFactory } from "../stores/store.ts";
import type { AdmissionMethod } from "./admission.ts";
import type { MeshEvent } from "./event.ts";
import type { LogOptions } from "./log.ts";
import { parseNetwork } from "./network-name.ts";
import type { Observer } from "./observe.ts";

/** What every platform lets a node be configured with. */
export interface NodeOptions extends LogOptions {
  /**
   * Name of the network, 1 to 63 characters; of a closed one `NAME@KEY`, with the public key of its authority. Nodes of different
   * networks do not hear each other.
   */
  readonly network: string;
  /** How the authority of a closed network admits the node: `certificate()` or `dns()` of `selfsame/admission`. */
  readonly admission?: AdmissionMethod | undefined;
  /** `url#peer-id` of nodes to join through. A node without any begins a ring of its own. */
  readonly bootstrap?: string | readonly string[] | undefined;
  /** URLs at which others dial this node, at most 8; with one, it is a member of the ring, else a leaf. */
  readonly address?: string | readonly string[] | undefined;
  /** The public key, 64 hex digits, of the owner whose names are called; or one for each name. */
  readonly owner?: string | Readonly<Record<string, string>> | undefined;
  /** The owner's secret seed, 64 hex digits, for development: the node then grants itself what it serves. */
  readonly ownerSeed?: string | undefined;
  /** This node's secret seed, 64 hex digits, in place of the one that the store keeps. */
  readonly seed?: string | undefined;
  /** Whether private, loopback and link-local addresses may be dialled. */
  readonly allowPrivate?: boolean | undefined;
  /** Whether a bootstrap without a peer id is believed the first time. */
  readonly trustOnFirstUse?: boolean | undefined;
  /**
   * Whether the node takes its identity over from another one that runs with it, which then stops. Without it, the node that
   * was started later stops with the error `DuplicateIdentity`.
   */
  readonly takeOver?: boolean | undefined;
  /** Label of what fails together with this node, such as a region; siblings are spread over labels. */
  readonly domain?: string | undefined;
  /** How long the node may sleep when nothing happens, in milliseconds. */
  readonly idleMs?: number | undefined;
  /** Hears of everything that happens to the node. */
  readonly onEvent?: ((event: MeshEvent) => void) | undefined;
  /** Follows the requests that the node sends and serves: `telemetry()` of `selfsame/telemetry`. */
  readonly telemetry?: Observer | undefined;
}

/** What `join` takes. */
export interface JoinOptions extends NodeOptions {
  /** Where the node keeps its identity and state: `sqlite(path)`, `indexedDb(name)`, or `memory()` if asked for. */
  readonly storage: StoreFactory;
  /** How long `join` tries to reach a bootstrap, in milliseconds; 15 seconds unless given. */
  readonly joinTimeoutMs?: number | undefined;
}

/** Options after their check. */
export interface CheckedOptions {
  /** The full name. */
  readonly network: string;
  /** The name without the key. */
  readonly networkName: string;
  /** How the node is admitted to a closed network, and its authority's public key. */
  readonly closed: { readonly authority: Uint8Array; readonly method: AdmissionMethod } | undefined;
  readonly addresses: readonly string[];
  readonly bootstraps: readonly string[];
  readonly owner: Uint8Array | ReadonlyMap<string, Uint8Array> | undefined;
  readonly ownerSeed: Uint8Array | undefined;
  readonly seed: Uint8Array | undefined;
  readonly allowPrivate: boolean;
  readonly trustOnFirstUse: boolean;
  readonly takeOver: boolean;
  readonly domain: string;
  readonly idle_ms: number | undefined;
}

/** Longest name of a service or label, as in DNS. */
const MAX_NAME = 63;
/** Most addresses of a node record. */
const MAX_ADDRESSES = 8;
/** Most bootstraps of a configuration. */
const MAX_BOOTSTRAPS = 64;
/** Longest URL that the core takes. */
const MAX_URL = 512;
/** Maintenance more often than this costs more than it repairs; less often than this loses its neighbours. */
const MIN_IDLE_MS = 1_000;
const MAX_IDLE_MS = 600_000;

const SCHEMES: ReadonlySet<string> = /* @__PURE__ */ new Set([
  "ws",
  "wss",
  "http",
  "https",
  "tcp",
  "udp",
  "webrtc",
]);

const KNOWN: ReadonlySet<string> = /* @__PURE__ */ new Set([
  "network",
  "admission",
  "bootstrap",
  "address",
  "owner",
  "ownerSeed",
  "seed",
  "allowPrivate",
  "trustOnFirstUse",
  "takeOver",
  "domain",
  "idleMs",
  "log",
  "logLevel",
  "onEvent",
  "telemetry",
]);

function bad(text: string): MeshError {
  return new MeshError("BadConfig", text);
}

/** Checks options; the first that is wrong is named in one line. `more` are the platform's own. */
export function checkOptions(options: NodeOptions, more: readonly string[]): CheckedOptions {
  if (typeof options !== "object" || options === null) throw bad("options are an object");
  for (const name of Object.keys(options)) {
    if (!KNOWN.has(name) && !more.includes(name)) {
      throw bad(`there is no option ${name}; the options are ${[...KNOWN, ...more].join(", ")}`);
    }
  }
  const { network, domain = "", idleMs: idle_ms } = options;
  const { full, name: networkName, authority } = parseNetwork(network);
  if (typeof domain !== "string" || domain.length > MAX_NAME) {
    throw bad(`domain is a label of at most ${MAX_NAME} characters`);
  }
  if (idle_ms !== undefined && !(idle_ms >= MIN_IDLE_MS && idle_ms <= MAX_IDLE_MS)) {
    throw bad(`idleMs is a number from ${MIN_IDLE_MS} to ${MAX_IDLE_MS}`);
  }
  const trustOnFirstUse = flag("trustOnFirstUse", options.trustOnFirstUse);
  const addresses = list("address", options.address, MAX_ADDRESSES).map((url) => checkUrl("address", url));
  const bootstraps = list("bootstrap", options.bootstrap, MAX_BOOTSTRAPS).map((url) =>
    checkBootstrap(url, trustOnFirstUse),
  );
  if (addresses.length === 0 && bootstraps.length === 0) {
    throw bad("a node without an address is a leaf and joins through others: give bootstrap, or address");
  }
  return {
    network: full,
    networkName,
    closed: checkAdmission(options, authority),
    addresses,
    bootstraps,
    owner: checkOwner(options.owner),
    ownerSeed: secret("ownerSeed", options.ownerSeed),
    seed: secret("seed", options.seed),
    allowPrivate: flag("allowPrivate", options.allowPrivate),
    trustOnFirstUse,
    takeOver: flag("takeOver", options.takeOver),
    domain,
    idle_ms,
  };
}

/** The part in the ring of a node with these options. */
export function roleOf({ addresses }: Pick<CheckedOptions, "addresses">): Role {
  return addresses.length > 0 ? "member" : "leaf";
}

function checkAdmission(
  { admission: method }: NodeOptions,
  authority: Uint8Array | undefined,
): CheckedOptions["closed"] {
  if (authority === undefined && method === undefined) return undefined;
  if (authority === undefined)
    throw bad(
      "the network is open and admits anybody: leave out admission, or name a closed network as NAME@KEY",
    );
  if (method === undefined) {
    const text =
      "the network is closed: give admission, certificate({ certificate }) or dns({ domain }) of selfsame/admission";
    throw new MeshError("NoCertificate", text);
  }
  if (typeof method?.admit !== "function" || typeof method.core !== "function")
    throw bad("admission is what certificate() or dns() of selfsame/admission gives");
  return { authority, method };
}

/** Checks the name of a service. */
export function checkName(name: string): string {
  if (typeof name === "string" && name.length <= MAX_NAME && /^[a-z0-9.-]+$/.test(name)) return name;
  throw new MeshError("BadName");
}

/** The service that a URL of the form `https://NAME.mesh/path` names; http means the same, since what travels is encrypted anyway. */
export function nameOfUrl(url: URL): string {
  const suffix = ".mesh";
  if (
    (url.protocol !== "https:" && url.protocol !== "http:") ||
    !url.hostname.endsWith(suffix) ||
    url.port !== ""
  ) {
    throw bad(`a mesh URL is https://NAME.mesh/path, not ${url.origin}`);
  }
  return checkName(url.hostname.slice(0, -suffix.length));
}

/** The URL that a socket's request goes to, as `fetch` takes it. */
export function urlOfSocket(url: string | URL): URL {
  const target = new URL(url);
  if (target.protocol === "wss:" || target.protocol === "ws:") target.protocol = "https:";
  return target;
}

function flag(name: string, value: boolean | undefined): boolean {
  if (value !== undefined && typeof value !== "boolean") throw bad(`${name} is true or false`);
  return value ?? false;
}

/** Reads a secret seed; its value is in no error. */
export function secret(name: string, value: string | undefined): Uint8Array | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "string") throw bad(`${name} has 64 hex digits`);
  return fromHex(value, 32, name);
}

function list(name: string, value: string | readonly string[] | undefined, most: number): readonly string[] {
  const values = value === undefined || value === "" ? [] : typeof value === "string" ? [value] : value;
  if (!Array.isArray(values) || !values.every((item) => typeof item === "string")) {
    throw bad(`${name} is a URL or a list of URLs`);
  }
  if (values.length > most) throw bad(`${name} has at most ${most} entries`);
  return values;
}

function checkUrl(name: string, text: string): string {
  const scheme = URL.canParse(text) ? new URL(text).protocol.slice(0, -1) : "";
  if (text.length > MAX_URL || !SCHEMES.has(scheme)) {
    throw bad(`${name} ${text} is no URL such as wss://host/.mesh`);
  }
  return text;
}

function checkBootstrap(text: string, trustOnFirstUse: boolean): string {
  checkUrl("bootstrap", text);
  const id = new URL(text).hash.slice(1);
  if (id === "" && trustOnFirstUse) return text;
  if (id === "") {
    throw new MeshError(
      "UnpinnedBootstrap",
      `bootstrap ${text} has no #peer-id: append it, or set trustOnFirstUse`,
    );
  }
  if (!/^[0-9a-f]{64}$/.test(id))
    throw bad(`bootstrap ${text} does not end with # and 64 lower-case hex digits`);
  return text;
}

function checkOwner(owner: NodeOptions["owner"]): CheckedOptions["owner"] {
  if (owner === undefined) return undefined;
  if (typeof owner === "string") return fromHex(owner, 32, "owner");
  if (typeof owner !== "object" || owner === null) throw bad("owner is a public key, or one for each name");
  return new Map(
    Object.entries(owner).map(([name, key]) => [checkName(name), fromHex(key, 32, `owner of ${name}`)]),
  );
}
