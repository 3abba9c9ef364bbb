import { ItemCodec } from "./batch.ts";
import { CborEncoder } from "./cbor.ts";
import { bytes, bytes32, type Field, fixed, time, u8, u16, u32 } from "./field.ts";

/** Version of the boundary of rpc.wasm, returned by its export `abi_version`. */
export const RPC_ABI_VERSION = 0x0002_0002;

/** Length of an endpoint: an IPv6 or IPv4-mapped address, and a big-endian port. */
export const ENDPOINT_BYTES = 18;

/** Set in the options of a call that may be carried out again; the bits below it are the policy. */
export const IDEMPOTENT = 0b100;

/**
 * What a host tells an RPC module; the sentences are those of `guest/codec/src/rpc.rs`. The time of a batch, and all others here, are
 * in microseconds since 1970.
 */
export type RpcInput =
  /** A datagram arrived. */
  | { type: "Datagram"; source: Uint8Array; bytes: Uint8Array }
  /** Call a service at an endpoint; answered by `Done` or `Failed`. Options: the policy, and `IDEMPOTENT`. */
  | {
      type: "Call";
      call: number;
      service: number;
      target: Uint8Array;
      options: number;
      timeout_ms: number;
      payload: Uint8Array;
    }
  /** Give up a call: no answer follows, and its server is told. */
  | { type: "Cancel"; call: number }
  /** Use a ticket for a service, as `Issued` gave it; empty when there is none to be had: calls that wait for one fail. */
  | { type: "UseTicket"; service: number; grant: Uint8Array }
  /** Answer a call. */
  | { type: "Answer"; call: number; payload: Uint8Array }
  /** Refuse a call that was not carried out. */
  | { type: "Refuse"; call: number; code: number }
  /** Issue a ticket to a peer that a core's session has authenticated, at an endpoint; answered by `Issued`. */
  | { type: "IssueTicket"; tag: number; caller: Uint8Array; endpoint: Uint8Array }
  /** Replace all ticket keys by those of 1 to 3 secrets, 32 bytes each: each opens tickets, and the first issues them. Secret. */
  | { type: "SetTicketKeys"; secrets: Uint8Array }
  /** Route to these servers from now on, 18 bytes each. */
  | { type: "SetServers"; endpoints: Uint8Array };

/** What an RPC module asks of its host. Bytes are views. */
export type RpcOutput =
  /** Send a datagram. */
  | { type: "Send"; target: Uint8Array; bytes: Uint8Array }
  /** The last item of a batch: step it again by this time; `Infinity` is never. */
  | { type: "Wake"; unix_us: number }
  /** A call was answered, by the server at an endpoint. */
  | { type: "Done"; call: number; source: Uint8Array; payload: Uint8Array }
  /** A call failed. */
  | { type: "Failed"; call: number; code: number }
  /** Calls of a service wait for a ticket; answered by `UseTicket`. */
  | { type: "TicketWanted"; service: number }
  /** Carry out a call: of which peer, from which endpoint, with which options, and how long the caller waits. */
  | {
      type: "Serve";
      call: number;
      caller: Uint8Array;
      source: Uint8Array;
      options: number;
      timeout_ms: number;
      payload: Uint8Array;
    }
  /** The caller has given a call up; an answer to it is not sent. */
  | { type: "Cancelled"; call: number }
  /** A ticket with its secret, for a session of the core. Secret. */
  | { type: "Issued"; tag: number; grant: Uint8Array }
  /** An input of this batch was refused; `input` is its position. */
  | { type: "Refused"; input: number; code: number };

const endpoint: Field<Uint8Array> = /* @__PURE__ */ fixed(ENDPOINT_BYTES);

/** The codec of what rpc.wasm takes. */
export const rpcInputCodec: ItemCodec<RpcInput> = /* @__PURE__ */ new ItemCodec<RpcInput>({
  Datagram: [2, { source: endpoint, bytes }],
  Call: [16, { call: u32, service: u32, target: endpoint, options: u8, timeout_ms: u32, payload: bytes }],
  Cancel: [17, { call: u32 }],
  UseTicket: [18, { service: u32, grant: bytes }],
  Answer: [32, { call: u32, payload: bytes }],
  Refuse: [33, { call: u32, code: u16 }],
  IssueTicket: [34, { tag: u32, caller: bytes32, endpoint }],
  SetTicketKeys: [35, { secrets: bytes }],
  SetServers: [48, { endpoints: bytes }],
});

/** The codec of what rpc.wasm gives. */
export const rpcOutputCodec: ItemCodec<RpcOutput> = /* @__PURE__ */ new ItemCodec<RpcOutput>({
  Send: [1, { target: endpoint, bytes }],
  Wake: [2, { unix_us: time }],
  Done: [16, { call: u32, source: endpoint, payload: bytes }],
  Failed: [17, { call: u32, code: u16 }],
  TicketWanted: [18, { service: u32 }],
  Serve: [
    32,
    {
      call: u32,
      caller: bytes32,
      source: endpoint,
      options: u8,
      timeout_ms: u32,
      payload: bytes,
    },
  ],
  Cancelled: [33, { call: u32 }],
  Issued: [34, { tag: u32, grant: bytes }],
  Refused: [35, { input: u32, code: u16 }],
});

/** What a server of the RPC is created with. */
export interface RpcServerConfig {
  /** Name of the network. */
  readonly network: Uint8Array;
  /** The service. */
  readonly service: Uint8Array;
  /** Secrets that its replicas share, 1 to 3 of 32 bytes, as `SetTicketKeys` has them. Secret. */
  readonly ticketSecrets: Uint8Array;
  /** Fresh random bytes, 32 of them. Secret. */
  readonly entropy: Uint8Array;
  /** Largest datagram that it sends. */
  readonly datagramBytes: number;
  /** Whether datagrams come over streams, which prove where they come from. */
  readonly streams: boolean;
  /** Seconds for which its tickets are good. */
  readonly ticketLife_s: number;
  /** Whether calls that are declared idempotent are carried out at once; else each is bound to one replica. */
  readonly idempotent: boolean;
  /** Of requests that were sent before (milliseconds since 1970), an earlier life of this replica may have carried out some. */
  readonly notBefore_ms: number;
  /** The secret that its routers share, 32 bytes or none. Secret. */
  readonly routerSecret: Uint8Array;
}

/** What a router of the RPC is created with. */
export interface RpcRouterConfig {
  /** The secret that routers and replicas of the service share, 32 bytes. Secret. */
  readonly secret: Uint8Array;
  /** Fresh random bytes, 32 of them. Secret. */
  readonly entropy: Uint8Array;
  /** How it picks a server. */
  readonly selection: RpcSelection;
  /** Most requests at a server, with the selection `bounded`. */
  readonly bound: number;
  /** Whether clients are told where to go, in place of passing their requests on. */
  readonly redirects: boolean;
}

/** How a router picks a server. */
export type RpcSelection = "random" | "roundRobin" | "shortestQueue" | "bounded" | "powerOfTwo" | "probed";

/** The selections, in the order of their numbers. */
export const RPC_SELECTIONS: readonly RpcSelection[] = [
  "random",
  "roundRobin",
  "shortestQueue",
  "bounded",
  "powerOfTwo",
  "probed",
];

const VERSION = 1;
const CLIENT = 1;
const SERVER = 2;
const ROUTER = 3;

/** Encodes what `create` of an RPC module takes to make a client, which sends datagrams of at most so many bytes. */
export function encodeRpcClientConfig(datagramBytes: number): Uint8Array {
  return new CborEncoder().array(3).uint(VERSION).uint(CLIENT).uint(datagramBytes).finish();
}

/** Encodes what `create` of an RPC module takes to make a server. Secret. */
export function encodeRpcServerConfig(config: RpcServerConfig): Uint8Array {
  const encoder = new CborEncoder().array(12).uint(VERSION).uint(SERVER);
  encoder.bytes(config.network).bytes(config.service).bytes(config.ticketSecrets).bytes(config.entropy);
  encoder.uint(config.datagramBytes).bool(config.streams).uint(config.ticketLife_s);
  encoder.uint(config.idempotent ? 1 : 0).uint(Math.trunc(config.notBefore_ms));
  return encoder.bytes(config.routerSecret).finish();
}

/** Encodes what `create` of an RPC module takes to make a router. Secret. */
export function encodeRpcRouterConfig(config: RpcRouterConfig): Uint8Array {
  const encoder = new CborEncoder().array(7).uint(VERSION).uint(ROUTER);
  encoder.bytes(config.secret).bytes(config.entropy).uint(RPC_SELECTIONS.indexOf(config.selection));
  return encoder.uint(config.bound).bool(config.redirects).finish();
}
