import { reconcile, setAttributes, svg } from "./dom.ts";
import {
  type Arc,
  LINE_HEIGHT,
  type Link,
  layout,
  type PlacedNode,
  type Point,
  pointAt,
  RADIUS,
  type Scene,
  SIZE,
} from "./layout.ts";
import { membersOf, platformClass, type Ring } from "./model.ts";
import type { Hop } from "./trace.ts";

/** The gap between the stretches of two members, in radians. */
const ARC_GAP = 0.02;
const PULSE_MS = 900;
/** More would only be a blur. */
const MAX_PULSES = 24;
/** How far the way of a request bends from the straight line, as a part of its length. */
const BEND = 0.16;
/** Room for the node at the end of a way, and the size of its arrow. */
const NODE_RADIUS = 40;
const ARROW = 15;

/** Draws the ring and keeps the drawing equal to what is known of it. */
export class RingView {
  readonly #title: SVGTitleElement = svg("title", { id: "ring-title" });
  readonly #guide: SVGCircleElement = svg("circle", {
    class: "guide empty",
    cx: SIZE / 2,
    cy: SIZE / 2,
    r: RADIUS,
  });
  readonly #arcs: SVGGElement = svg("g", { class: "arcs" });
  readonly #links: SVGGElement = svg("g", { class: "links" });
  readonly #ways: SVGGElement = svg("g", { class: "ways" });
  readonly #pulses: SVGGElement = svg("g", { class: "pulses" });
  readonly #nodes: SVGGElement = svg("g", { class: "nodes" });
  #points = new Map<string, Point>();

  constructor(root: SVGSVGElement) {
    setAttributes(root, { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-labelledby": "ring-title" });
    const layers = [this.#arcs, this.#links, this.#ways, this.#nodes, this.#pulses];
    root.replaceChildren(this.#title, this.#guide, ...layers);
  }

  /** Shows what is known now. */
  render(ring: Ring): void {
    const scene = layout(ring);
    this.#points = new Map(scene.nodes.map(({ node, at }) => [node.id, at]));
    this.#title.textContent = describe(ring);
    this.#guide.classList.toggle("empty", scene.arcs.length === 0);
    this.#renderArcs(scene);
    this.#renderLinks(scene);
    this.#renderNodes(scene);
  }

  /** Lets a point run from one node to another, for a request that was seen; later, if it was made within another. */
  pulse(from: string, to: string, delay_ms = 0): void {
    const [start, end] = [this.#points.get(from), this.#points.get(to)];
    const isBusy = this.#pulses.childElementCount >= MAX_PULSES;
    if (!start || !end || isBusy || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const point = svg("circle", { class: "pulse", r: 12 });
    this.#pulses.append(point);
    const at = ({ x, y }: Point): string => `translate(${x}px, ${y}px)`;
    const run = point.animate([{ transform: at(start) }, { transform: at(end) }], {
      duration: PULSE_MS,
      delay: delay_ms,
      fill: "backwards",
      easing: "ease-in-out",
    });
    run.onfinish = () => point.remove();
  }

  /** Lets the request of a trace run its way. */
  run(hops: readonly Hop[]): void {
    for (const { from, to, depth } of hops) this.pulse(from, to, depth * PULSE_MS);
  }

  /** Draws the way of a request, or none. */
  showWay(hops: readonly Hop[]): void {
    const ways = hops.flatMap(({ from, to, isError }) => {
      const [start, end] = [this.#points.get(from), this.#points.get(to)];
      return start && end && from !== to ? [{ key: `${from}-${to}`, start, end, isError }] : [];
    });
    const each = [...new Map(ways.map((way) => [way.key, way])).values()];
    reconcile(
      this.#ways,
      each,
      ({ key }) => key,
      () => svg("path"),
      (path, { start, end }) => setAttributes(path, { class: "way", d: wayPath(start, end) }),
    );
  }

  #renderArcs({ arcs }: Scene): void {
    reconcile(this.#arcs, arcs, (arc) => arc.id, createArc, updateArc);
  }

  #renderLinks({ links }: Scene): void {
    reconcile(
      this.#links,
      links,
      (link) => link.key,
      (link) => svg("line", { class: `link ${link.kind}` }),
      (line, { from, to }: Link) => setAttributes(line, { x1: from.x, y1: from.y, x2: to.x, y2: to.y }),
    );
  }

  #renderNodes({ nodes }: Scene): void {
    reconcile(this.#nodes, nodes, ({ node }) => node.id, createNode, updateNode);
  }
}

function createArc(): SVGGElement {
  const group = svg("g");
  group.append(svg("path", { class: "arc" }), svg("path", { class: "direction" }));
  return group;
}

function updateArc(group: SVGGElement, arc: Arc): void {
  group.setAttribute("class", platformClass(arc.label));
  const [stretch, direction] = group.children;
  const middle = (arc.from + arc.to) / 2;
  const { x, y } = pointAt(middle, RADIUS);
  stretch?.setAttribute("d", arcPath(arc));
  // An arrow from a member to its successor: clockwise.
  const turn = (middle * 180) / Math.PI;
  direction?.setAttribute("d", "M -7 -11 L 7 0 L -7 11");
  direction?.setAttribute("transform", `translate(${x} ${y}) rotate(${turn})`);
}

/** A bent line from one node to another, with an arrow at its end. */
function wayPath(start: Point, end: Point): string {
  const [dx, dy] = [end.x - start.x, end.y - start.y];
  const bend = { x: (start.x + end.x) / 2 - dy * BEND, y: (start.y + end.y) / 2 + dx * BEND };
  const tip = towards(end, bend, NODE_RADIUS);
  const base = towards(tip, bend, ARROW * 1.5);
  const [ax, ay] = [(tip.y - base.y) / 1.5, (base.x - tip.x) / 1.5];
  const from = towards(start, bend, NODE_RADIUS);
  const line = `M ${from.x} ${from.y} Q ${bend.x} ${bend.y} ${tip.x} ${tip.y}`;
  return `${line} M ${base.x + ax} ${base.y + ay} L ${tip.x} ${tip.y} L ${base.x - ax} ${base.y - ay}`;
}

/** The point so far from one point towards another. */
function towards(from: Point, to: Point, distance: number): Point {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const part = distance / Math.max(Math.hypot(dx, dy), 1);
  return { x: from.x + dx * part, y: from.y + dy * part };
}

function createNode(): SVGGElement {
  const group = svg("g");
  group.append(svg("title"));
  group.append(
    svg("line", { class: "leader" }),
    svg("circle", { class: "halo" }),
    svg("circle", { class: "disc" }),
  );
  group.append(svg("text"));
  return group;
}

function updateNode(group: SVGGElement, placed: PlacedNode): void {
  const { node, at, caption, isSelf, hasSession } = placed;
  const classes = [
    "node",
    node.role,
    platformClass(node.label),
    isSelf ? "self" : "",
    hasSession ? "session" : "",
  ];
  group.setAttribute("class", classes.filter(Boolean).join(" "));
  const [title, leader, halo, disc, text] = group.children;
  if (!title || !leader || !halo || !disc || !text) return;
  const tip = [node.label, node.id, ...node.addresses].filter(Boolean).join("\n");
  if (title.textContent !== tip) title.textContent = tip;
  const isMember = node.role === "member";
  setAttributes(disc, { cx: at.x, cy: at.y, r: isMember ? 22 : 15 });
  setAttributes(halo, { cx: at.x, cy: at.y, r: isMember ? 31 : 23 });
  setAttributes(leader, { x1: at.x, y1: at.y, x2: caption.at.x, y2: caption.at.y - LINE_HEIGHT * 0.3 });
  setAttributes(text, { x: caption.at.x, y: caption.at.y, "text-anchor": caption.anchor });
  const classOf = (index: number): string => ["name", "id"][index] ?? "service";
  reconcile(
    text,
    caption.lines.map((line, index) => ({ line, index })),
    ({ index }) => String(index),
    ({ index }) => svg("tspan", { class: classOf(index), ...(index > 0 ? { dy: LINE_HEIGHT } : {}) }),
    (span, { line }) => {
      span.setAttribute("x", String(caption.at.x));
      if (span.textContent !== line) span.textContent = line;
    },
  );
}

function arcPath({ from, to }: Arc): string {
  const length = to - from;
  const gap = Math.min(ARC_GAP, length / 4);
  const [start, end] = [pointAt(from + gap, RADIUS), pointAt(to - gap, RADIUS)];
  const large = length - 2 * gap > Math.PI ? 1 : 0;
  return `M ${start.x} ${start.y} A ${RADIUS} ${RADIUS} 0 ${large} 1 ${end.x} ${end.y}`;
}

function describe(ring: Ring): string {
  const members = membersOf(ring);
  const names = members.map((member) => member.label || "a member").join(", ");
  const leaves = ring.nodes.length - members.length;
  return `The ring ${ring.network}: ${members.length} members in this order: ${names}; ${leaves} leaves.`;
}
