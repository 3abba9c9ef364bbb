import type { Membership } from "selfsame/codec";

/** A node of the ring as the page knows it. */
export type RingNode = {
  /** Peer id, 64 hexadecimal digits. */
  id: string;
  role: "member" | "leaf";
  /** Where it runs, such as `deno`. */
  label: string;
  addresses: string[];
  /** Names it serves, of those that the page looks for. */
  services: string[];
  /** Members that relay for a leaf. */
  relays: string[];
};

/** A node that serves a name. */
export type Replica = {
  /** Peer id, 64 hexadecimal digits. */
  peer: string;
  /** Where it runs, such as `deno`. */
  label: string;
  /** Version that it serves; may be empty. */
  version: string;
  /** Share of the requests that its version is to get; versions of 1 share what others leave. */
  weight: number;
  /** Whether the page avoids it for a while, because it failed. */
  ejected: boolean;
  /** How long its answers to the page took to begin lately; `null` when it was not asked. */
  latency_ms: number | null;
};

/** A name and who serves it. */
export type Service = { name: string; replicas: Replica[] };

/** All that the page draws. */
export type Ring = {
  network: string;
  /** Id of the page's own node. */
  self: string;
  /** Members and leaves, each once. */
  nodes: RingNode[];
  /** The names that the page looks for and that are served. */
  services: Service[];
  /** Ids of the peers with which the page has a session. */
  sessions: string[];
  /** How a closed network admits the page's own node; `null` in an open one. */
  membership: Membership | null;
};

/** Members in the order of the ring. */
export function membersOf(ring: Ring): RingNode[] {
  return ring.nodes.filter((node) => node.role === "member").sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** The first digits of an id: enough to tell nodes of one ring apart. */
export function shortId(id: string): string {
  return id.slice(0, 6);
}

/** Platforms have a colour of their own; what a stranger writes into a label never becomes a class. */
export function platformClass(label: string): string {
  const platform = ["workerd", "deno", "wasmtime", "node", "browser"].find((known) => known === label);
  return `on-${platform ?? "other"}`;
}

/** Items by what they have in common. */
export function groupedBy<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
  return groups;
}
