import { MeshError } from "../codec/code.ts";
import { utf8 } from "../codec/field.ts";
import { fromHex, toHex } from "../codec/hex.ts";
import type { Policy } from "../codec/input.ts";
import type { Gate, Handler } from "./serve.ts";

/** How long an answer may take to begin unless a request says otherwise. */
const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_TIMEOUT_MS = 0xffff_ffff;
/** Providers that a request may go to after the first, and does unless it says otherwise. */
const MAX_RETRIES = 2;
/** Longest key of a sticky choice: longer ones can be hashed. */
const MAX_KEY = 256;
/** Siblings of a name beside the first, so that the loss of one responsible node and its successors is survived. */
const DEFAULT_REPLICAS = 1;
const MAX_REPLICAS = 3;
/** Longest version that an association holds. */
const MAX_VERSION = 64;
/** Weights travel in ten-thousandths. */
const WHOLE = 10_000;

/** Whose name is meant. */
export interface NameOptions {
  /** The name belongs to nobody: whoever publishes it is believed. */
  readonly unowned?: boolean | undefined;
  /** Public key of the name's owner, in place of the configured one. */
  readonly owner?: string | undefined;
}

/** How a request finds its provider. */
export interface CallOptions extends NameOptions {
  /** Id of the one peer that is to answer, in place of any provider. */
  readonly peer?: string | undefined;
  /** Requests of equal keys, at most 256 bytes in UTF-8, go to the same provider while there is one. */
  readonly key?: string | undefined;
  /** How a provider is chosen: of two at random the less busy one, which is the default, or any at random. */
  readonly policy?: "power-of-two" | "random" | undefined;
  /** How long it may take until the answer begins, over all attempts, in milliseconds; 30 seconds unless given. */
  readonly timeout_ms?: number | undefined;
  /** How many other providers are tried where that is safe, 0 to 2; 2 unless given. */
  readonly retries?: number | undefined;
  /** Whether the request goes in a session in any case, also where `createRpcClient` has others of the mesh go by RPC. */
  readonly forwardSecret?: boolean | undefined;
}

/**
 * The usual options of `fetch`, and how the request finds its provider. The answer to a request that is redirected is given as it is, unless
 * `redirect` is "error": then it fails as in `fetch`. "follow" is refused.
 */
export interface FetchInit extends RequestInit, CallOptions {}

/** What an owner grants a peer beside the name. */
export interface GrantOptions {
  /** Until when the peer may serve the name. */
  readonly expires: Date;
  /** Ids of other peers, at most 8, whose grants for the name count no more unless they are signed later. */
  readonly revoke?: readonly string[] | undefined;
}

/** How a name is published. */
export interface PublishOptions {
  /** The owner's grant, as base64url. */
  readonly grant?: string | undefined;
  /** The name belongs to nobody: callers must ask for it so. */
  readonly unowned?: boolean | undefined;
  /** Version that is served; callers may be split by it. */
  readonly version?: string | undefined;
  /**
   * Share of the requests that this version gets, 0 to 1; the versions of 1, which is what a provider has unless given, share
   * what the others leave. The providers of one version should state the same.
   */
  readonly weight?: number | undefined;
  /** How many siblings of the name's object are stored beside the first; 1 unless given. */
  readonly replicas?: number | undefined;
}

/** Decides whether a peer may make a request, of which it sees everything but the body. */
export type Allow = (caller: string, request: Request) => boolean | Promise<boolean>;

/** How a name is served. */
export interface ServeOptions extends PublishOptions {
  /** Peer ids that may call, or what decides; others get 403. Everybody may unless given. */
  readonly allow?: readonly string[] | Allow | undefined;
  /** Most requests that are answered at a time; beyond that callers get 503 and try another provider. */
  readonly limit?: number | undefined;
}

/** A name, who answers to it, and how. */
export interface Service {
  /** The name. */
  readonly name: string;
  /** Answers its requests. */
  readonly handler: Handler;
  /** How it is published and who may call. */
  readonly options?: ServeOptions;
}

/** Whom a request goes to, checked. */
export interface Target {
  /** The name of the service. */
  readonly name: string;
  /** The owner's public key; empty for an unowned name. */
  readonly owner: Uint8Array;
  /** One peer in place of any provider. */
  readonly peer: Uint8Array | undefined;
  /** Key of a sticky choice, or empty. */
  readonly key: Uint8Array;
  /** How a provider is chosen. */
  readonly policy: Policy;
  /** How long until the answer must begin. */
  readonly timeout_ms: number;
  /** How many others may be tried. */
  readonly retries: number;
  /** Whether it goes in a session in any case. */
  readonly isForwardSecret: boolean;
}

/** How a name is published, checked. */
export interface Publication {
  /** Siblings beside the first. */
  readonly replicas: number;
  /** Version; may be empty. */
  readonly version: string;
  /** Weight in ten-thousandths. */
  readonly weight: number;
}

/** Checks the options of a call; the first that is wrong is named. `owner` is empty for an unowned name. */
export function checkCall(name: string, owner: Uint8Array, options: CallOptions): Target {
  const { peer, key = "", policy = "power-of-two", timeout_ms = DEFAULT_TIMEOUT_MS } = options;
  if (policy !== "power-of-two" && policy !== "random") {
    throw new MeshError("BadConfig", 'policy is "power-of-two" or "random"');
  }
  const keyBytes = utf8(key);
  if (keyBytes.length > MAX_KEY) {
    throw new MeshError("BadConfig", `key has at most ${MAX_KEY} bytes: give the hash of a longer one`);
  }
  const retries = options.retries ?? MAX_RETRIES;
  return {
    name,
    owner,
    peer: peer === undefined ? undefined : fromHex(peer, 32, "peer"),
    key: keyBytes,
    policy: policy === "random" ? "Random" : "PowerOfTwo",
    timeout_ms: checkInteger("timeout_ms", timeout_ms, 1, MAX_TIMEOUT_MS),
    retries: checkInteger("retries", retries, 0, MAX_RETRIES),
    isForwardSecret: options.forwardSecret ?? false,
  };
}

/** Checks how a name is to be published. */
export function checkPublication(options: PublishOptions): Publication {
  const { replicas = DEFAULT_REPLICAS, weight = 1, version = "" } = options;
  if (!(weight >= 0 && weight <= 1)) throw new MeshError("BadConfig", "weight is a number from 0 to 1");
  if (typeof version !== "string" || utf8(version).length > MAX_VERSION) {
    throw new MeshError("BadConfig", `version is a text of at most ${MAX_VERSION} bytes`);
  }
  return {
    replicas: checkInteger("replicas", replicas, 0, MAX_REPLICAS),
    version,
    weight: Math.round(weight * WHOLE),
  };
}

/** Who may call; `undefined` when everybody may. */
export function checkAllow({ allow }: ServeOptions): Gate | undefined {
  if (allow === undefined) return undefined;
  if (typeof allow === "function") return (caller, request) => allow(caller, request());
  if (!Array.isArray(allow) || !allow.every((id) => typeof id === "string")) {
    throw new MeshError("BadConfig", "allow is a list of peer ids, or a function");
  }
  const ids: ReadonlySet<string> = new Set(allow.map((id: string) => toHex(fromHex(id, 32, "allow"))));
  return (caller) => ids.has(caller);
}

/** How many requests may be answered at a time. */
export function checkLimit({ limit }: ServeOptions): number {
  return limit === undefined
    ? Number.POSITIVE_INFINITY
    : checkInteger("limit", limit, 1, Number.MAX_SAFE_INTEGER);
}

/** Takes the options of a call out of those of a `fetch`. */
export function splitInit(init: FetchInit): { call: CallOptions; request: RequestInit } {
  const { unowned, owner, peer, key, policy, timeout_ms, retries, forwardSecret, ...request } = init;
  const given = Object.entries({ unowned, owner, peer, key, policy, timeout_ms, retries, forwardSecret });
  return { call: Object.fromEntries(given.filter(([, value]) => value !== undefined)), request };
}

function checkInteger(name: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new MeshError("BadConfig", `${name} is a whole number from ${least} to ${most}`);
}
