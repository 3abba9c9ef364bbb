import { ItemCodec } from "./batch.ts";
import { bytes, bytes32, choice, flag, text, time, u16, u32 } from "./field.ts";

/** How much a log record matters. */
export type LogLevel = "debug" | "info" | "warn" | "error";

/** What an event of the core tells; see `guest/codec/src/output.rs`. */
export type EventKind =
  | "Ready"
  | "PeerConnected"
  | "PeerDisconnected"
  | "RingChanged"
  | "Published"
  | "DuplicateIdentity"
  | "Convicted";

/** What a core asks of its host, and tells it; the last one of a batch is always `Wake`. Bytes are views. */
export type Output =
  /** Send a frame on a path. */
  | { type: "Transmit"; path: number; frame: Uint8Array }
  /** Open a path to an address. */
  | { type: "Dial"; dial: number; address: string }
  /** Close a path; answered by `PathClosed`. */
  | { type: "ClosePath"; path: number }
  /** Keep this with a hibernating path, before any frame of this batch is sent. */
  | { type: "Snapshot"; path: number; snapshot: Uint8Array }
  /** Answer with `Entropy`. */
  | { type: "NeedEntropy" }
  /** Read one value; answered by `StoreRead`. */
  | { type: "StoreGet"; tag: number; key: Uint8Array }
  /** Read at most `limit` entries with `start <= key < end`, in order. */
  | { type: "StoreScan"; tag: number; start: Uint8Array; end: Uint8Array; limit: number }
  /** Apply all operations or none; answered by `StoreCommitted`. */
  | { type: "StoreCommit"; tag: number; durable: boolean; operations: Uint8Array }
  /** Whether the core awaits something on an exchange path. */
  | { type: "Busy"; path: number; busy: boolean }
  /** Whether a certificate of a peer stands in the DNS under its key; answered by `LookedUp`. */
  | { type: "LookUp"; peer: Uint8Array; key: Uint8Array; remote: string }
  /** A stream is open: in answer to `Call` with this tag, or from a peer, with tag 0. */
  | {
      type: "StreamOpened";
      stream: number;
      tag: number;
      peer: Uint8Array;
      service: string;
      head: Uint8Array;
    }
  /** Bytes arrived on a stream. */
  | { type: "StreamData"; stream: number; data: Uint8Array }
  /** The peer has sent its last byte on a stream. */
  | { type: "StreamEnd"; stream: number }
  /** A stream is gone, both ways. */
  | { type: "StreamReset"; stream: number; code: number }
  /** The application may send `bytes` more on a stream. */
  | { type: "StreamCredit"; stream: number; bytes: number }
  /** A command succeeded. */
  | { type: "Reply"; tag: number; body: Uint8Array }
  /** A command failed; `detail` of a call are the providers that were tried, as `id=code` separated by spaces. */
  | { type: "Failed"; tag: number; code: number; detail: string }
  /** Who serves a name that is watched with this tag. */
  | { type: "Providers"; tag: number; body: Uint8Array }
  /** A message was routed to this member, for the target that its sender named; answered by `AnswerRouted`. */
  | { type: "Routed"; message: number; peer: Uint8Array; target: Uint8Array; body: Uint8Array }
  /** An input of this batch was refused; `input` is its position. */
  | { type: "Refused"; input: number; code: number }
  /** Something happened that nobody asked for. */
  | { type: "Event"; event: EventKind; body: Uint8Array }
  /** A record for the log; `path` is 0 where none is concerned. */
  | { type: "Log"; level: LogLevel; code: number; path: number; text: string }
  /** Call `step` again at this time at the latest; `Infinity` is never. */
  | { type: "Wake"; at_ms: number };

/** The codec of outputs. */
export const outputCodec: ItemCodec<Output> = /* @__PURE__ */ new ItemCodec<Output>({
  Transmit: [1, { path: u32, frame: bytes }],
  Dial: [2, { dial: u32, address: text }],
  ClosePath: [3, { path: u32 }],
  Snapshot: [4, { path: u32, snapshot: bytes }],
  NeedEntropy: [5, {}],
  StoreGet: [6, { tag: u32, key: bytes }],
  StoreScan: [7, { tag: u32, start: bytes, end: bytes, limit: u32 }],
  StoreCommit: [8, { tag: u32, durable: flag, operations: bytes }],
  Busy: [9, { path: u32, busy: flag }],
  LookUp: [10, { peer: bytes32, key: bytes32, remote: text }],
  StreamOpened: [16, { stream: u32, tag: u32, peer: bytes32, service: text, head: bytes }],
  StreamData: [17, { stream: u32, data: bytes }],
  StreamEnd: [18, { stream: u32 }],
  StreamReset: [19, { stream: u32, code: u16 }],
  StreamCredit: [20, { stream: u32, bytes: u32 }],
  Reply: [32, { tag: u32, body: bytes }],
  Failed: [33, { tag: u32, code: u16, detail: text }],
  Providers: [37, { tag: u32, body: bytes }],
  Routed: [38, { message: u32, peer: bytes32, target: bytes32, body: bytes }],
  Refused: [34, { input: u32, code: u16 }],
  Event: [
    35,
    {
      event: /* @__PURE__ */ choice(
        [
          "Ready",
          "PeerConnected",
          "PeerDisconnected",
          "RingChanged",
          "Published",
          "DuplicateIdentity",
          "Convicted",
        ],
        1,
      ),
      body: bytes,
    },
  ],
  Log: [
    36,
    { level: /* @__PURE__ */ choice(["debug", "info", "warn", "error"]), code: u16, path: u32, text },
  ],
  Wake: [255, { at_ms: time }],
});
