import { membersOf, type Ring, type RingNode, shortId } from "./model.ts";

/** A point of the drawing. */
export type Point = { x: number; y: number };

/** The key space that a member is responsible for, as a stretch of the circle. */
export type Arc = { id: string; label: string; from: number; to: number };

/** A node with its place and its text. */
export type PlacedNode = {
  node: RingNode;
  isSelf: boolean;
  hasSession: boolean;
  at: Point;
  caption: Caption;
};

/** The text beside a node. */
export type Caption = {
  at: Point;
  anchor: "start" | "middle" | "end";
  /** Name, id, then the services. */
  lines: string[];
};

/** A line between two nodes. */
export type Link = { key: string; kind: "relay" | "session"; from: Point; to: Point };

/** Everything that is drawn. */
export type Scene = { arcs: Arc[]; nodes: PlacedNode[]; links: Link[] };

/** Side of the square in which the ring is drawn. */
export const SIZE = 1000;
/** Radius of the ring. */
export const RADIUS = 285;
/** Height of a line of a caption. */
export const LINE_HEIGHT = 36;

const CENTRE: Point = { x: SIZE / 2, y: SIZE / 2 };
const LEAF_RADIUS = 125;
/** With more leaves than this their captions would cover each other: only the page's own has one. */
const MAX_CAPTIONED_LEAVES = 4;
const CAPTION_DISTANCE = 44;
/** Members that are closer, in radians, would have captions over each other if these were centred. */
const CROWDED = 0.7;
/** The space between two captions on the same side. */
const CAPTION_GAP = 14;
const MAX_SERVICES = 4;
const MAX_NAME_LENGTH = 13;

/** The angle of an id in radians, clockwise from the top: ids are spread over the circle. */
export function angleOf(id: string): number {
  // 48 bits fit a number exactly and are finer than any screen.
  return (Number.parseInt(id.slice(0, 12), 16) / 2 ** 48) * 2 * Math.PI;
}

/** The point at an angle and a distance from the centre. */
export function pointAt(angle: number, radius: number): Point {
  return { x: CENTRE.x + radius * Math.sin(angle), y: CENTRE.y - radius * Math.cos(angle) };
}

/** Places everything that is known of a ring. */
export function layout(ring: Ring): Scene {
  const members = membersOf(ring);
  const places = placesOf(ring.nodes);
  const taken = members.map(({ id }) => angleOf(id));
  const nodes = ring.nodes.map((node) => placeNode(node, ring, places.get(node.id) ?? 0, taken));
  separateCaptions(nodes);
  return { arcs: arcsOf(members), nodes, links: linksOf(ring, nodes) };
}

/** The stretch from each member's predecessor to itself; one member has the whole circle. */
export function arcsOf(members: RingNode[]): Arc[] {
  return members.map((member, index) => {
    const before = members.at(index - 1) ?? member;
    const to = angleOf(member.id);
    const from = angleOf(before.id);
    return { id: member.id, label: member.label, from: from < to ? from : from - 2 * Math.PI, to };
  });
}

/** The angles of all nodes; leaves move apart, since their place says nothing about key space. */
function placesOf(nodes: RingNode[]): Map<string, number> {
  const places = new Map(nodes.map((node) => [node.id, angleOf(node.id)]));
  const leaves = nodes.filter((node) => node.role === "leaf").sort((a, b) => (a.id < b.id ? -1 : 1));
  const apart = (2 * Math.PI) / Math.max(leaves.length, 4);
  let free = Number.NEGATIVE_INFINITY;
  for (const leaf of leaves) {
    const angle = Math.max(angleOf(leaf.id), free);
    places.set(leaf.id, angle);
    free = angle + apart;
  }
  return places;
}

function placeNode(node: RingNode, ring: Ring, angle: number, taken: readonly number[]): PlacedNode {
  const radius = node.role === "member" ? RADIUS : LEAF_RADIUS;
  return {
    node,
    isSelf: node.id === ring.self,
    hasSession: ring.sessions.includes(node.id),
    at: pointAt(angle, radius),
    caption: node.role === "leaf" ? leafCaption(node, ring, angle) : memberCaption(node, angle, taken),
  };
}

function leafCaption(node: RingNode, ring: Ring, angle: number): Caption {
  const isSelf = node.id === ring.self;
  const leaves = ring.nodes.filter((other) => other.role === "leaf").length;
  const at = pointAt(angle, LEAF_RADIUS);
  const lines =
    isSelf || leaves <= MAX_CAPTIONED_LEAVES ? linesOf(node, isSelf ? "this page" : undefined) : [];
  return { at: { x: at.x, y: at.y + LINE_HEIGHT * 1.4 }, anchor: "middle", lines };
}

function memberCaption(node: RingNode, angle: number, taken: readonly number[]): Caption {
  const lines = linesOf(node, undefined);
  const at = pointAt(angle, RADIUS + CAPTION_DISTANCE);
  const anchor = anchorOf(angle, taken);
  // The block grows away from the ring: upwards at the top, downwards at the bottom, both ways at the sides.
  const height = (lines.length - 1) * LINE_HEIGHT;
  const shift = (1 + Math.cos(angle)) / 2;
  // Text stands on its baseline: above the ring it needs more room than below.
  const baseline = LINE_HEIGHT * (0.3 - 0.5 * Math.max(0, Math.cos(angle)));
  return { at: { x: at.x, y: at.y - height * shift + baseline }, anchor, lines };
}

/** Text at the sides leads away from the ring; above and below it is centred, or leads away from a close neighbour. */
function anchorOf(angle: number, taken: readonly number[]): Caption["anchor"] {
  const side = Math.sin(angle);
  if (Math.abs(side) > 0.35) return side > 0 ? "start" : "end";
  const close = taken.filter((other) => other !== angle && Math.cos(other - angle) > Math.cos(CROWDED));
  if (close.length === 0) return "middle";
  const others = close.reduce((sum, other) => sum + Math.sin(other), 0) / close.length;
  return others < side ? "start" : "end";
}

function linesOf(node: RingNode, name: string | undefined): string[] {
  const named = node.services.slice(0, MAX_SERVICES).map(abbreviate);
  const more = node.services.length - named.length;
  return [
    name ?? (node.label || node.role),
    shortId(node.id),
    ...named,
    ...(more > 0 ? [`+${more} more`] : []),
  ];
}

function abbreviate(name: string): string {
  return name.length > MAX_NAME_LENGTH ? `${name.slice(0, MAX_NAME_LENGTH - 1)}\u2026` : name;
}

/** Moves captions at the sides down until none covers another, and up again where that leaves the drawing. */
function separateCaptions(nodes: PlacedNode[]): void {
  for (const anchor of ["start", "end"]) {
    const captions = nodes
      .filter(({ node, caption }) => node.role === "member" && caption.anchor === anchor)
      .map(({ caption }) => caption)
      .sort((a, b) => a.at.y - b.at.y);
    pushDown(captions);
    pushUp(captions);
  }
}

function pushDown(captions: Caption[]): void {
  let free = LINE_HEIGHT;
  for (const caption of captions) {
    caption.at.y = Math.max(caption.at.y, free);
    free = bottomOf(caption) + LINE_HEIGHT + CAPTION_GAP;
  }
}

function pushUp(captions: Caption[]): void {
  let limit = SIZE - CAPTION_GAP;
  for (const caption of captions.toReversed()) {
    caption.at.y = Math.min(caption.at.y, limit - (bottomOf(caption) - caption.at.y));
    limit = caption.at.y - LINE_HEIGHT - CAPTION_GAP;
  }
}

function bottomOf(caption: Caption): number {
  return caption.at.y + (caption.lines.length - 1) * LINE_HEIGHT;
}

function linksOf(ring: Ring, placed: PlacedNode[]): Link[] {
  const points = new Map(placed.map(({ node, at }) => [node.id, at]));
  const links: Link[] = [];
  const add = (kind: Link["kind"], from: string, to: string): void => {
    const [start, end] = [points.get(from), points.get(to)];
    if (start && end && from !== to) links.push({ key: `${kind}-${from}-${to}`, kind, from: start, to: end });
  };
  for (const node of ring.nodes) for (const relay of node.relays) add("relay", node.id, relay);
  const own = ring.nodes.find((node) => node.id === ring.self);
  for (const peer of ring.sessions) if (!own?.relays.includes(peer)) add("session", ring.self, peer);
  return links;
}
