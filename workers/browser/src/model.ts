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

/** All that the page draws. */
export type Ring = {
  network: string;
  /** Id of the page's own node. */
  self: string;
  /** Members and leaves, each once. */
  nodes: RingNode[];
  /** Ids of the peers with which the page has a session. */
  sessions: string[];
};

/** Members in the order of the ring. */
export function membersOf(ring: Ring): RingNode[] {
  return ring.nodes.filter((node) => node.role === "member").sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** The first digits of an id: enough to tell nodes of one ring apart. */
export function shortId(id: string): string {
  return id.slice(0, 6);
}
