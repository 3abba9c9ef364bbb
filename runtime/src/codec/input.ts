import { ItemCodec } from "./batch.ts";
import { bytes, bytes32, choice, type Field, flag, text, u8, u16, u32 } from "./field.ts";

/**
 * How a path carries frames: `Ordered` both ways at any time (WebSocket), `Exchange` as request and answer
 * (HTTPS POST), `Hibernating` in order while the host forgets its memory between frames, `Direct` in order over TCP or
 * UDP without a proxy, so that `remote` is the peer's own address.
 */
export type PathKind = "Ordered" | "Exchange" | "Hibernating" | "Direct";

/**
 * How a provider is chosen among those of a version: of two at random the one with less latency and fewer requests in
 * flight, or any.
 */
export type Policy = "PowerOfTwo" | "Random";

/** What a host tells a core; the sentences are those of `guest/codec/src/input.rs`. */
export type Input =
  /** A frame arrived on a path. */
  | { type: "Received"; path: number; frame: Uint8Array }
  /** A path is open; `dial` is the number of the core's `Dial`, or 0 for an incoming path. */
  | { type: "PathOpened"; path: number; dial: number; kind: PathKind; remote: string }
  /** A path is closed, whoever closed it. */
  | { type: "PathClosed"; path: number }
  /** An incoming hibernating path that survived the loss of memory, with the last snapshot the core gave of it. */
  | { type: "PathResumed"; path: number; remote: string; snapshot: Uint8Array }
  /** A `Dial` came to nothing. */
  | { type: "DialFailed"; dial: number }
  /** 32 fresh random bytes. */
  | { type: "Entropy"; bytes: Uint8Array }
  /** Answer to `StoreGet` or `StoreScan`. */
  | { type: "StoreRead"; tag: number; ok: boolean; entries: Uint8Array }
  /** Answer to `StoreCommit`. */
  | { type: "StoreCommitted"; tag: number; ok: boolean }
  /** Answer to `LookUp`: 0 if a certificate that counts stands in the DNS, else the code of why not. */
  | { type: "LookedUp"; peer: Uint8Array; code: number }
  /** The application sends bytes on a stream, at most the credit it has. */
  | { type: "StreamData"; stream: number; data: Uint8Array }
  /** The application has sent its last byte on a stream. */
  | { type: "StreamEnd"; stream: number }
  /** The application gives up a stream, both ways. */
  | { type: "StreamReset"; stream: number; code: number }
  /** The application has consumed `bytes` more of what a stream delivered. */
  | { type: "StreamCredit"; stream: number; bytes: number }
  /** Join the ring. */
  | { type: "Join"; tag: number }
  /** Hand over what this node is responsible for and leave the ring. */
  | { type: "Leave"; tag: number }
  /** Find who serves a name. */
  | { type: "Find"; tag: number; owner: Uint8Array; name: string }
  /** Publish this node as a provider of a name. */
  | {
      type: "Publish";
      tag: number;
      grant: Uint8Array;
      name: string;
      replicas: number;
      version: string;
      weight: number;
    }
  /** Stop publishing a name. */
  | { type: "Withdraw"; tag: number; owner: Uint8Array; name: string }
  /**
   * Open a stream to a provider of a name: of equal `key` to the same one, not to those of the ids in `tried`, which makes
   * it a retry. The answer must begin within `timeout_ms`; 0 is 30 s.
   */
  | {
      type: "Call";
      tag: number;
      owner: Uint8Array;
      name: string;
      key: Uint8Array;
      tried: Uint8Array;
      policy: Policy;
      timeout_ms: number;
      head: Uint8Array;
    }
  /** Open a stream to one peer. */
  | {
      type: "CallPeer";
      tag: number;
      peer: Uint8Array;
      owner: Uint8Array;
      name: string;
      timeout_ms: number;
      head: Uint8Array;
    }
  /** Find the node responsible for an id. */
  | { type: "FindNode"; tag: number; id: Uint8Array }
  /** What this node knows of itself and the ring. */
  | { type: "Status"; tag: number }
  /** Connect to a peer by id or, when `peer` is all zero, to whoever answers at `address`. */
  | { type: "Connect"; tag: number; peer: Uint8Array; address: string }
  /** Give up a command that was not answered yet. */
  | { type: "Cancel"; tag: number }
  /** Follow who serves a name: `Providers` now and on each change, until `Cancel`. */
  | { type: "Watch"; tag: number; owner: Uint8Array; name: string }
  /** Go on with a new certificate of admission, for the same id. */
  | { type: "Certify"; tag: number; certificate: Uint8Array }
  /** Take a list of revocations of the network's authority, and pass it on. */
  | { type: "Revoke"; tag: number; list: Uint8Array }
  /** Send a message to the member responsible for `target`, or if `is_peer` to the one with that id; 0 ms is 10 s. */
  | {
      type: "Route";
      tag: number;
      target: Uint8Array;
      is_peer: boolean;
      timeout_ms: number;
      body: Uint8Array;
    }
  /** The application answers a `Routed` message, or if not `ok` refuses it. */
  | { type: "AnswerRouted"; message: number; ok: boolean; body: Uint8Array };

/** An input that the core answers with its tag. */
export type Command = Exclude<
  Extract<Input, { tag: number }>,
  { type: "StoreRead" | "StoreCommitted" | "Cancel" }
>;

const policy: Field<Policy> = /* @__PURE__ */ choice(["PowerOfTwo", "Random"]);
const pathKind: Field<PathKind> = /* @__PURE__ */ choice(["Ordered", "Exchange", "Hibernating", "Direct"]);

/** The codec of inputs. */
export const inputCodec: ItemCodec<Input> = /* @__PURE__ */ new ItemCodec<Input>({
  Received: [1, { path: u32, frame: bytes }],
  PathOpened: [2, { path: u32, dial: u32, kind: pathKind, remote: text }],
  PathClosed: [3, { path: u32 }],
  PathResumed: [4, { path: u32, remote: text, snapshot: bytes }],
  DialFailed: [5, { dial: u32 }],
  Entropy: [6, { bytes: bytes32 }],
  StoreRead: [7, { tag: u32, ok: flag, entries: bytes }],
  StoreCommitted: [8, { tag: u32, ok: flag }],
  LookedUp: [9, { peer: bytes32, code: u16 }],
  StreamData: [16, { stream: u32, data: bytes }],
  StreamEnd: [17, { stream: u32 }],
  StreamReset: [18, { stream: u32, code: u16 }],
  StreamCredit: [19, { stream: u32, bytes: u32 }],
  Join: [32, { tag: u32 }],
  Leave: [33, { tag: u32 }],
  Find: [34, { tag: u32, owner: bytes, name: text }],
  Publish: [35, { tag: u32, grant: bytes, name: text, replicas: u8, version: text, weight: u16 }],
  Withdraw: [36, { tag: u32, owner: bytes, name: text }],
  Call: [
    37,
    {
      tag: u32,
      owner: bytes,
      name: text,
      key: bytes,
      tried: bytes,
      policy,
      timeout_ms: u32,
      head: bytes,
    },
  ],
  CallPeer: [38, { tag: u32, peer: bytes32, owner: bytes, name: text, timeout_ms: u32, head: bytes }],
  FindNode: [39, { tag: u32, id: bytes32 }],
  Status: [40, { tag: u32 }],
  Connect: [41, { tag: u32, peer: bytes32, address: text }],
  Cancel: [42, { tag: u32 }],
  Watch: [43, { tag: u32, owner: bytes, name: text }],
  Certify: [44, { tag: u32, certificate: bytes }],
  Revoke: [45, { tag: u32, list: bytes }],
  Route: [46, { tag: u32, target: bytes32, is_peer: flag, timeout_ms: u32, body: bytes }],
  AnswerRouted: [47, { message: u32, ok: flag, body: bytes }],
});
