import type { MeshError } from "../codec/code.ts";
import { fromUtf8 } from "../codec/field.ts";
import { toHex } from "../codec/hex.ts";
import type { EventKind } from "../codec/output.ts";
import { decodeDuplicate } from "../codec/reply.ts";

/** Something that happened to a node and that nobody asked for. */
export type MeshEvent =
  /** The state is loaded. */
  | { readonly type: "ready" }
  /** A session with a peer is established. */
  | { readonly type: "peer-connected"; readonly peer: string }
  /** The last session with a peer ended. */
  | { readonly type: "peer-disconnected"; readonly peer: string }
  /** Predecessor, successors or role changed; `status()` tells them. */
  | { readonly type: "ring-changed" }
  /** A name is stored at every responsible node that could be reached. */
  | { readonly type: "published"; readonly name: string }
  /** Two nodes run with one identity, this node's or a peer's, at these addresses. */
  | {
      readonly type: "duplicate-identity";
      readonly peer: string;
      readonly addresses: readonly [readonly string[], readonly string[]];
    }
  /** A peer of a closed network has contradicted itself and is refused from now on; the evidence is for the authority. */
  | { readonly type: "convicted"; readonly evidence: Uint8Array }
  /** The core trapped and was started again from its store. */
  | { readonly type: "restarted"; readonly reason: string }
  /** The core has trapped five times or more within ten minutes; it is started again all the same. */
  | { readonly type: "unstable"; readonly traps: number; readonly reason: string }
  /** The node cannot go on: all that is asked of it fails with this error. */
  | { readonly type: "ended"; readonly error: MeshError };

/** Translates an event of the core. */
export function eventOf(kind: EventKind, body: Uint8Array): MeshEvent {
  switch (kind) {
    case "Ready":
      return { type: "ready" };
    case "PeerConnected":
      return { type: "peer-connected", peer: toHex(body) };
    case "PeerDisconnected":
      return { type: "peer-disconnected", peer: toHex(body) };
    case "RingChanged":
      return { type: "ring-changed" };
    case "Published":
      return { type: "published", name: fromUtf8(body) };
    case "DuplicateIdentity": {
      const [one, other] = decodeDuplicate(body);
      return { type: "duplicate-identity", peer: one.id, addresses: [one.addresses, other.addresses] };
    }
    case "Convicted":
      return { type: "convicted", evidence: body.slice() };
    default:
      return kind satisfies never;
  }
}
