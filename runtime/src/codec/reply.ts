import { CborDecoder, CborEncoder } from "./cbor.ts";
import { type CodeName, codeName, codeNumber } from "./code.ts";
import type { Role } from "./config.ts";
import { fromHex, toHex } from "./hex.ts";

/** A node of the ring, as its signed record describes it. */
export interface NodeInfo {
  /** Peer id, 64 hex digits. */
  readonly id: string;
  /** Member or leaf. */
  readonly role: Role;
  /** URLs at which it can be dialled. */
  readonly addresses: readonly string[];
  /** Label of what fails together with it. */
  readonly domain: string;
}

/** The node responsible for an id. */
export interface FoundNode extends NodeInfo {
  /** How many members were asked on the way; the last one is itself. */
  readonly hops: number;
}

/** A peer that serves a name. */
export interface Provider {
  /** Peer id, 64 hex digits. */
  readonly peer: string;
  /** Version it serves; may be empty. */
  readonly version: string;
  /** Share of the requests that its version gets, 0 to 1; versions of 1 share what others leave. */
  readonly weight: number;
  /** Where it is, if the association said so. */
  readonly node: NodeInfo | null;
  /** Whether it gets no requests of this node for a while, because it failed. */
  readonly ejected: boolean;
  /** Requests of this node that it has not answered whole. */
  readonly inFlight: number;
  /** How long its answers to this node took to begin lately, in milliseconds; `null` when it was not asked. */
  readonly latency_ms: number | null;
}

/** A name that a node publishes. */
export interface ServiceInfo {
  /** The name. */
  readonly name: string;
  /** Version; may be empty. */
  readonly version: string;
  /** Share of the requests that its version gets, 0 to 1. */
  readonly weight: number;
}

/** The time in which a certificate counts. */
export interface Validity {
  /** From when on, in milliseconds since 1970. */
  readonly since_ms: number;
  /** Until when, in milliseconds since 1970. */
  readonly until_ms: number;
}

/** A node's membership of a closed network. */
export interface Membership {
  /** Public key of the network's authority, 64 hex digits. */
  readonly authority: string;
  /** When the node's certificate counts. */
  readonly certificate: Validity;
  /** Serial of the newest list of revocations, 0 without one, and how many keys are in it. */
  readonly revocations: { readonly serial: number; readonly revoked: number };
  /** When the certificates of its neighbours count. */
  readonly neighbours: readonly { readonly id: string; readonly certificate: Validity }[];
}

/** What a node knows of itself and the ring. */
export interface CoreStatus {
  /** Its peer id, 64 hex digits. */
  readonly id: string;
  /** Name of the network. */
  readonly network: string;
  /** Member or leaf. */
  readonly role: Role;
  /** Whether it has joined. */
  readonly joined: boolean;
  /** Its own addresses. */
  readonly addresses: readonly string[];
  /** The member before it on the ring. */
  readonly predecessor: NodeInfo | null;
  /** The members after it, nearest first. */
  readonly successors: readonly NodeInfo[];
  /** Members further away, each once. */
  readonly fingers: readonly NodeInfo[];
  /** Members that relay for this leaf. */
  readonly relays: readonly NodeInfo[];
  /** Peers with a live session. */
  readonly peers: readonly string[];
  /** Names it publishes. */
  readonly services: readonly ServiceInfo[];
  /** Associations that it stores for others. */
  readonly objects: number;
  /** How often each error code occurred since the start. */
  readonly counters: Readonly<Record<string, number>>;
  /** How a closed network admits it; `null` in an open one. */
  readonly membership: Membership | null;
}

const MAX_ITEMS = 65_536;
const MAX_TEXT = 1024;
const MAX_COUNT = 0xffff_ffff;
/** The whole of a service's requests: weights travel in ten-thousandths. */
const WHOLE = 10_000;

/** Decodes the reply to `FindNode`. */
export function decodeFoundNode(bytes: Uint8Array): FoundNode {
  const decoder = new CborDecoder(bytes);
  decoder.arrayOf(2);
  const found = { ...readNode(decoder), hops: decoder.uint(MAX_COUNT) };
  decoder.finish();
  return found;
}

/** Decodes the body of the event `DuplicateIdentity`: one node as two records of it describe it. */
export function decodeDuplicate(bytes: Uint8Array): [NodeInfo, NodeInfo] {
  const decoder = new CborDecoder(bytes);
  decoder.arrayOf(2);
  const nodes: [NodeInfo, NodeInfo] = [readNode(decoder), readNode(decoder)];
  decoder.finish();
  return nodes;
}

/** Encodes the reply to `FindNode`. */
export function encodeFoundNode({ hops, ...node }: FoundNode): Uint8Array {
  return writeNode(new CborEncoder().array(2), node).uint(hops).finish();
}

/** Decodes the reply to `Find`. */
export function decodeProviders(bytes: Uint8Array): Provider[] {
  const decoder = new CborDecoder(bytes);
  const providers = decoder.list(MAX_ITEMS, () => {
    decoder.arrayOf(7);
    return {
      peer: toHex(decoder.fixed(32)),
      version: decoder.text(MAX_TEXT),
      weight: decoder.uint(WHOLE) / WHOLE,
      node: decoder.null() ? null : readNode(decoder),
      ejected: decoder.bool(),
      inFlight: decoder.uint(MAX_COUNT),
      latency_ms: decoder.null() ? null : decoder.uint(MAX_COUNT),
    };
  });
  decoder.finish();
  return providers;
}

/** Encodes the reply to `Find`. */
export function encodeProviders(providers: readonly Provider[]): Uint8Array {
  const encoder = new CborEncoder().array(providers.length);
  for (const { peer, version, weight, node, ejected, inFlight, latency_ms } of providers) {
    encoder
      .array(7)
      .bytes(fromHex(peer, 32, "a peer id"))
      .text(version)
      .uint(Math.round(weight * WHOLE));
    writeOption(encoder, node);
    encoder.bool(ejected).uint(inFlight);
    if (latency_ms === null) encoder.null();
    else encoder.uint(latency_ms);
  }
  return encoder.finish();
}

/** Decodes the reply to `Status`. */
export function decodeStatus(bytes: Uint8Array): CoreStatus {
  const decoder = new CborDecoder(bytes);
  const nodes = (): NodeInfo[] => decoder.list(MAX_ITEMS, readNode);
  decoder.arrayOf(14);
  const status: CoreStatus = {
    id: toHex(decoder.fixed(32)),
    network: decoder.text(MAX_TEXT),
    role: readRole(decoder),
    joined: decoder.bool(),
    addresses: readTexts(decoder),
    predecessor: decoder.null() ? null : readNode(decoder),
    successors: nodes(),
    fingers: nodes(),
    relays: nodes(),
    peers: decoder.list(MAX_ITEMS, () => toHex(decoder.fixed(32))),
    services: decoder.list(MAX_ITEMS, () => {
      decoder.arrayOf(3);
      return {
        name: decoder.text(MAX_TEXT),
        version: decoder.text(MAX_TEXT),
        weight: decoder.uint(WHOLE) / WHOLE,
      };
    }),
    objects: decoder.uint(),
    counters: Object.fromEntries(
      decoder.list(MAX_ITEMS, () => {
        decoder.arrayOf(2);
        const code = decoder.uint(0xffff);
        return [codeName(code) ?? `0x${code.toString(16).padStart(4, "0")}`, decoder.uint()] as const;
      }),
    ),
    membership: decoder.null() ? null : readMembership(decoder),
  };
  decoder.finish();
  return status;
}

function readMembership(decoder: CborDecoder): Membership {
  decoder.arrayOf(6);
  return {
    authority: toHex(decoder.fixed(32)),
    certificate: readValidity(decoder),
    revocations: { serial: decoder.uint(), revoked: decoder.uint() },
    neighbours: decoder.list(MAX_ITEMS, () => {
      decoder.arrayOf(3);
      return { id: toHex(decoder.fixed(32)), certificate: readValidity(decoder) };
    }),
  };
}

function readValidity(decoder: CborDecoder): Validity {
  return { since_ms: decoder.uint(), until_ms: decoder.uint() };
}

function writeMembership(encoder: CborEncoder, membership: Membership): void {
  const { authority, certificate, revocations, neighbours } = membership;
  encoder
    .array(6)
    .bytes(fromHex(authority, 32, "a key"))
    .uint(certificate.since_ms)
    .uint(certificate.until_ms)
    .uint(revocations.serial)
    .uint(revocations.revoked)
    .array(neighbours.length);
  for (const { id, certificate } of neighbours)
    encoder
      .array(3)
      .bytes(fromHex(id, 32, "a peer id"))
      .uint(certificate.since_ms)
      .uint(certificate.until_ms);
}

/** Encodes the reply to `Status`. */
export function encodeStatus(status: CoreStatus): Uint8Array {
  const encoder = new CborEncoder()
    .array(14)
    .bytes(fromHex(status.id, 32, "a peer id"))
    .text(status.network)
    .uint(status.role === "member" ? 1 : 0)
    .bool(status.joined)
    .texts(status.addresses);
  writeOption(encoder, status.predecessor);
  for (const nodes of [status.successors, status.fingers, status.relays]) {
    encoder.array(nodes.length);
    for (const node of nodes) writeNode(encoder, node);
  }
  encoder.array(status.peers.length);
  for (const peer of status.peers) encoder.bytes(fromHex(peer, 32, "a peer id"));
  encoder.array(status.services.length);
  for (const { name, version, weight } of status.services) {
    encoder
      .array(3)
      .text(name)
      .text(version)
      .uint(Math.round(weight * WHOLE));
  }
  const counters = Object.entries(status.counters);
  encoder.uint(status.objects).array(counters.length);
  for (const [name, total] of counters)
    encoder
      .array(2)
      .uint(codeNumber(name as CodeName))
      .uint(total);
  if (status.membership === null) encoder.null();
  else writeMembership(encoder, status.membership);
  return encoder.finish();
}

function readRole(decoder: CborDecoder): Role {
  return decoder.uint(1) === 1 ? "member" : "leaf";
}

function readTexts(decoder: CborDecoder): string[] {
  return decoder.list(MAX_ITEMS, () => decoder.text(MAX_TEXT));
}

function readNode(decoder: CborDecoder): NodeInfo {
  decoder.arrayOf(4);
  return {
    id: toHex(decoder.fixed(32)),
    role: readRole(decoder),
    addresses: readTexts(decoder),
    domain: decoder.text(MAX_TEXT),
  };
}

function writeNode(encoder: CborEncoder, node: NodeInfo): CborEncoder {
  return encoder
    .array(4)
    .bytes(fromHex(node.id, 32, "a peer id"))
    .uint(node.role === "member" ? 1 : 0)
    .texts(node.addresses)
    .text(node.domain);
}

function writeOption(encoder: CborEncoder, node: NodeInfo | null): void {
  if (node === null) encoder.null();
  else writeNode(encoder, node);
}
