import { CborDecoder, CborEncoder } from "./cbor.ts";
import { malformed } from "./field.ts";

/** What part a node takes in the ring. */
export type Role = "leaf" | "member";

/** How a network admits its members: anybody, or who has a certificate of its authority. */
export type Admission = "open" | ClosedAdmission;

/** Admission to a network that is closed. */
export interface ClosedAdmission {
  /** How certificates find their way to the nodes. */
  readonly mode: "dns";
  /** Public key of the authority, 32 bytes. */
  readonly authority: Uint8Array;
  /** This node's certificate, at most 320 bytes. */
  readonly certificate: Uint8Array;
  /** Whether the host answers `LookUp`: newcomers become neighbours once their certificates stand in the DNS. */
  readonly confirms: boolean;
}

/** What a core is created with; see `guest/codec/src/config.rs`. */
export interface Config {
  /** The master seed, 32 bytes. Secret. */
  readonly seed: Uint8Array;
  /** 32 fresh random bytes of this start. Secret. */
  readonly entropy: Uint8Array;
  /** Public key and its proof, as `derive` gave them, 64 bytes, or empty: then the node computes the key. */
  readonly knownKey: Uint8Array;
  /** Name of the network, 1 to 63 characters. */
  readonly network: string;
  /** Member or leaf. */
  readonly role: Role;
  /** URLs at which this node can be dialled, at most 8. */
  readonly addresses: readonly string[];
  /** `url#peer-id` of nodes to join through. */
  readonly bootstraps: readonly string[];
  /** URL schemes that the host can dial, without the colon. */
  readonly dials: readonly string[];
  /** Whether private, loopback and link-local addresses in records may be dialled. */
  readonly allowPrivate: boolean;
  /** Whether a bootstrap without a peer id is accepted. */
  readonly trustOnFirstUse: boolean;
  /** How long the node may sleep when nothing happens, in milliseconds. */
  readonly idle_ms: number;
  /** Label of what fails together with this node; may be empty. */
  readonly domain: string;
  /** How the network admits its members. */
  readonly admission: Admission;
  /** Whether this start takes the identity over from another node that runs with it. */
  readonly takeOver: boolean;
}

const VERSION = 4;
const ITEMS = 18;
const MAX_KNOWN_KEY = 64;
const MAX_LIST = 64;
const MAX_URL = 512;
const KEY_BYTES = 32;
const MAX_CERTIFICATE = 320;
const NOTHING: Uint8Array = /* @__PURE__ */ new Uint8Array();

/** Encodes what `create` takes. */
export function encodeConfig(config: Config): Uint8Array {
  const { admission } = config;
  const closed = admission === "open" ? undefined : admission;
  return new CborEncoder()
    .array(ITEMS)
    .uint(VERSION)
    .bytes(config.seed)
    .bytes(config.entropy)
    .bytes(config.knownKey)
    .text(config.network)
    .uint(config.role === "member" ? 1 : 0)
    .texts(config.addresses)
    .texts(config.bootstraps)
    .texts(config.dials)
    .bool(config.allowPrivate)
    .bool(config.trustOnFirstUse)
    .uint(config.idle_ms)
    .text(config.domain)
    .uint(closed === undefined ? 0 : 1)
    .bytes(closed?.authority ?? NOTHING)
    .bytes(closed?.certificate ?? NOTHING)
    .bool(closed?.confirms ?? false)
    .bool(config.takeOver)
    .finish();
}

/** Decodes what `create` takes. */
export function decodeConfig(bytes: Uint8Array): Config {
  const decoder = new CborDecoder(bytes);
  decoder.arrayOf(ITEMS);
  if (decoder.uint() !== VERSION) throw malformed("a configuration of another version");
  const texts = (): string[] => decoder.list(MAX_LIST, () => decoder.text(MAX_URL));
  const config: Config = {
    seed: decoder.fixed(32),
    entropy: decoder.fixed(32),
    knownKey: decoder.bytes(MAX_KNOWN_KEY),
    network: decoder.text(MAX_URL),
    role: decoder.uint(1) === 1 ? "member" : "leaf",
    addresses: texts(),
    bootstraps: texts(),
    dials: texts(),
    allowPrivate: decoder.bool(),
    trustOnFirstUse: decoder.bool(),
    idle_ms: decoder.uint(),
    domain: decoder.text(MAX_URL),
    admission: readAdmission(decoder),
    takeOver: decoder.bool(),
  };
  decoder.finish();
  return config;
}

function readAdmission(decoder: CborDecoder): Admission {
  const isClosed = decoder.uint(1) === 1;
  const authority = decoder.bytes(KEY_BYTES);
  const certificate = decoder.bytes(MAX_CERTIFICATE);
  const confirms = decoder.bool();
  return isClosed ? { mode: "dns", authority, certificate, confirms } : "open";
}
