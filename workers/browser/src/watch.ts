import type { CoreStatus, NodeInfo, Provider } from "selfsame/codec";

import type { Replica, Ring, RingNode } from "./model.ts";
import { walk } from "./walk.ts";

/** How a leaf's record names a relay. */
const RELAY = "relay:";

/** What of a mesh is asked to know the ring. */
export type Asked = {
  status(): Promise<CoreStatus>;
  findNode(id: string): Promise<NodeInfo>;
  find(name: string): Promise<readonly Provider[]>;
  /** Whether a node answers calls. */
  answers(id: string): Promise<boolean>;
};

/**
 * Looks at the ring through the page's own node: its status, one walk around the members, who serves the names that are
 * known, and which nodes of the last look still answer calls although none of these led to them.
 */
export async function look(mesh: Asked, names: Iterable<string>, before?: Ring): Promise<Ring> {
  const own = await mesh.status();
  const [members, found] = await Promise.all([
    walk((id) => mesh.findNode(id), own.id),
    Promise.all([...names].map(async (name) => ({ name, providers: await mesh.find(name).catch(() => []) }))),
  ]);
  const nodes = new Map<string, RingNode>();
  for (const member of members) nodes.set(member.id, ringNode(member));
  nodes.set(own.id, ownNode(own));
  const leaves = found.flatMap(({ providers }) => providers.filter(({ node }) => node?.role === "leaf"));
  const met = new Set([...nodes.keys(), ...leaves.map(({ peer }) => peer)]);
  const missed = (before?.nodes ?? []).filter(({ id }) => !met.has(id));
  for (const node of await answering(mesh, missed)) nodes.set(node.id, node);
  const services = found
    .map(({ name, providers }) => ({ name, replicas: replicasOf(name, providers, nodes) }))
    .filter(({ replicas }) => replicas.length > 0)
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return {
    network: own.network,
    self: own.id,
    nodes: [...nodes.values()],
    services,
    sessions: [...own.peers],
    membership: own.membership,
  };
}

/** Those of some nodes that answer calls, with nothing that they serve: the ring may have lost them. */
async function answering(mesh: Asked, missed: readonly RingNode[]): Promise<RingNode[]> {
  const answers = await Promise.all(missed.map(({ id }) => mesh.answers(id).catch(() => false)));
  return missed.filter((_, at) => answers[at]).map((node) => ({ ...node, services: [] }));
}

/** Those who serve a name; leaves among them are added to the nodes, and each is told of what it serves. */
function replicasOf(name: string, providers: readonly Provider[], nodes: Map<string, RingNode>): Replica[] {
  const replicas = providers.flatMap(({ peer, version, weight, node, ejected, latency_ms }): Replica[] => {
    // What a member published outlives it: one that the walk did not meet counts only if it answers calls.
    const known = nodes.get(peer) ?? (node?.role === "leaf" ? ringNode(node) : undefined);
    if (known === undefined) return [];
    nodes.set(peer, known);
    if (!known.services.includes(name)) known.services.push(name);
    return [{ peer, label: known.label, version, weight, ejected, latency_ms }];
  });
  return replicas.sort((a, b) => (a.version + a.peer < b.version + b.peer ? -1 : 1));
}

function ringNode(node: NodeInfo): RingNode {
  const relays = node.addresses.filter((address) => address.startsWith(RELAY));
  return {
    id: node.id,
    role: node.role,
    label: node.domain,
    addresses: node.addresses.filter((address) => !address.startsWith(RELAY)),
    services: [],
    relays: relays.map((address) => address.slice(RELAY.length)),
  };
}

function ownNode(own: CoreStatus): RingNode {
  return {
    id: own.id,
    role: own.role,
    label: "browser",
    addresses: [],
    services: own.services.map((service) => service.name),
    relays: own.relays.map((relay) => relay.id),
  };
}

/** What changed between two looks, as sentences. */
export function changes(before: Ring | undefined, after: Ring): string[] {
  if (before === undefined) return [];
  const [old, now] = [byId(before), byId(after)];
  const name = (node: RingNode): string => `${node.label || node.role} ${node.id.slice(0, 6)}`;
  const came = after.nodes.filter((node) => !old.has(node.id)).map((node) => `${name(node)} joined`);
  const left = before.nodes.filter((node) => !now.has(node.id)).map((node) => `${name(node)} is gone`);
  const others = after.nodes.filter((node) => node.id !== after.self);
  const served = others.flatMap((node) => {
    const known = old.get(node.id)?.services ?? [];
    return node.services.filter((one) => !known.includes(one)).map((one) => `${name(node)} serves ${one}`);
  });
  return [...came, ...left, ...served];
}

function byId(ring: Ring): Map<string, RingNode> {
  return new Map(ring.nodes.map((node) => [node.id, node]));
}
