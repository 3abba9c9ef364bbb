/** What the participants of a soak test agree on: names, how each is started, and what it is told to do. */

/** The service that every member provides. */
export const SERVICE = "soak";

/** The kinds of calls that have an answer to wait for. */
export const CALL_KINDS = ["small", "large", "post", "stream", "events", "socket", "leaf", "abort"] as const;
/** What a caller may be told to do. */
export type Kind = (typeof CALL_KINDS)[number] | "append";

/** How a member or leaf in TypeScript is started. */
export interface MemberSettings {
  readonly network: string;
  /** The name that it alone provides. */
  readonly name: string;
  /** Its secret seed, 64 hex digits. */
  readonly seed: string;
  /** Port of 127.0.0.1 where it is dialled, if it is a member, and told what to do. */
  readonly port: number;
  /** Authority at which others dial it; none for a leaf. */
  readonly authority: string | undefined;
  /** Nodes to join through, by WebSocket, each with its peer id. */
  readonly bootstrap: readonly string[];
  /** Where ids of POSTs are counted. */
  readonly ledger: string;
  /** Folder of what it keeps. */
  readonly folder: string;
  /** The capsule that it holds as a replica, in base32; none unless it is one. */
  readonly keep: string | undefined;
}

/** A call, or an append to a capsule, that a caller is told to make. */
export interface Order {
  readonly kind: Kind;
  /** The service that is called. */
  readonly service: string;
  /** Unique in a run. */
  readonly id: string;
}

/** What became of an order. */
export interface Outcome {
  readonly ok: boolean;
  /** Attempts of the application; the mesh has made others on its own. */
  readonly attempts: number;
  /** Why attempts failed, the first one first. */
  readonly reasons: readonly string[];
  readonly took_ms: number;
}

/** What a writer opens its capsule with. */
export interface WriterSettings {
  /** Signed metadata of the capsule, in hex. */
  readonly metadata: string;
  /** Secret seed of the writer, 64 hex digits. */
  readonly seed: string;
  readonly capsule: string;
  /** Replicas: the key that each signs with, and the peer that serves it. */
  readonly replicas: readonly { readonly key: string; readonly peer: string }[];
  /** Records that it appends at once, one at a time. */
  readonly warmed: number;
}

/** Streams and sockets that a provider has open. */
export interface Gauges {
  events: number;
  sockets: number;
}
