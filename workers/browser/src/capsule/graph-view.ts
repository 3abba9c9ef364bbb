import { html, reconcile, setAttributes, setText, svg } from "../dom.ts";
import { type Edge, edgesOf, type Lanes, lanesOf, ROW, type Row } from "./lanes.ts";
import { count, type Graph, type Step, type Writer, writerOf } from "./model.ts";
import { timeOf, titleOf } from "./text.ts";

/** Rows that are drawn above and below those that are seen, so that scrolling shows no gaps. */
const SPARE_ROWS = 6;
/** Radius of a record. */
const RADIUS = 8;
/** Colours of writers, in the order of their numbers. */
const WRITER_COLOURS = 6;

/** What the view tells. */
export type GraphEvents = {
  /** A record was chosen. */
  onChosen: (name: string) => void;
  /** The end of what was read came into sight. */
  onEnd: () => void;
};

/**
 * Draws the records as rows below each other, each in the lane of its writer, and only those that are seen. A row is a button, so
 * the graph is a list for those who do not see it; the arrow keys go from row to row.
 */
export class GraphView {
  readonly #scroller: HTMLElement;
  readonly #events: GraphEvents;
  readonly #drawing: SVGSVGElement = svg("svg", { "aria-hidden": "true" });
  readonly #edges: SVGGElement = svg("g");
  readonly #nodes: SVGGElement = svg("g");
  readonly #list: HTMLOListElement = html("ol", "records");
  #graph: Graph | undefined;
  #lanes: Lanes = { rows: [], width: 0 };
  #chosen: string | undefined;
  /** Names on the path of the proof that is shown. */
  #path: readonly string[] = [];
  #hasFocus = false;

  constructor(scroller: HTMLElement, events: GraphEvents) {
    this.#scroller = scroller;
    this.#events = events;
    this.#drawing.append(this.#edges, this.#nodes);
    this.#list.setAttribute("aria-label", "Records, the newest first");
    scroller.replaceChildren(this.#drawing, this.#list);
    scroller.addEventListener("scroll", () => this.#draw(), { passive: true });
    scroller.addEventListener("keydown", (event) => this.#onKey(event));
    scroller.addEventListener("focusin", () => (this.#hasFocus = true));
    scroller.addEventListener("focusout", () => (this.#hasFocus = false));
    new ResizeObserver(() => this.#draw()).observe(scroller);
  }

  /** Shows what is known now. */
  render(graph: Graph): void {
    const before = this.#lanes.rows[0]?.record.name;
    this.#graph = graph;
    this.#lanes = lanesOf(graph.records);
    const moved = this.#lanes.rows.findIndex(({ record }) => record.name === before);
    // Whoever has scrolled stays where he is when records come above.
    if (moved > 0 && this.#scroller.scrollTop > ROW / 2) this.#scroller.scrollTop += moved * ROW;
    this.#draw();
  }

  /** Marks a record and the path of its proof. */
  choose(name: string | undefined, steps: readonly Step[] = []): void {
    this.#chosen = name;
    this.#path = steps.map(({ record }) => record);
    this.#draw();
  }

  /** Scrolls to a record, if it was read. */
  reveal(name: string): boolean {
    const row = this.#lanes.rows.find(({ record }) => record.name === name);
    if (row === undefined) return false;
    const { scrollTop, clientHeight } = this.#scroller;
    const top = row.index * ROW;
    if (top < scrollTop) this.#scroller.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.#scroller.scrollTop = top + ROW - clientHeight;
    this.#draw();
    return true;
  }

  #draw(): void {
    const graph = this.#graph;
    if (graph === undefined) return;
    const { rows, width } = this.#lanes;
    const { scrollTop, clientHeight } = this.#scroller;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - SPARE_ROWS);
    const last = Math.min(rows.length - 1, Math.ceil((scrollTop + clientHeight) / ROW) + SPARE_ROWS);
    const seen = rows.slice(first, last + 1);
    const height = rows.length * ROW;
    setAttributes(this.#drawing, { width, height, viewBox: `0 0 ${width} ${height}` });
    this.#list.style.height = `${height}px`;
    this.#list.style.setProperty("--lanes", `${width}px`);
    // One stop for the tab key: the chosen row, or the first one.
    const stop = rows.find(({ record }) => record.name === this.#chosen) ?? rows[0];
    this.#drawEdges(first, last);
    reconcile(this.#nodes, seen, keyOf, createNode, (node, row) => this.#updateNode(node, row, graph));
    reconcile(
      this.#list,
      seen,
      keyOf,
      (row) => this.#createRow(row.record.name),
      (item, row) => this.#updateRow(item, row, graph, row === stop),
    );
    if (last >= rows.length - 1 && !graph.isWhole) this.#events.onEnd();
  }

  #drawEdges(first: number, last: number): void {
    const steps = new Set(this.#path.slice(1).map((name, index) => `${this.#path[index]}-${name}`));
    reconcile(
      this.#edges,
      edgesOf(this.#lanes, first, last),
      ({ key }) => key,
      () => svg("path"),
      (path, { key, kind, d }: Edge) =>
        setAttributes(path, { class: `edge ${kind} ${steps.has(key) ? "proof" : ""}`, d }),
    );
  }

  #updateNode(group: SVGGElement, { record, x, y }: Row, { heads, writers }: Graph): void {
    const classes = [
      "record",
      writerClass(writers, record.writer),
      record.name === this.#chosen ? "chosen" : "",
      this.#path.includes(record.name) ? "proof" : "",
    ];
    setAttributes(group, { class: classes.filter(Boolean).join(" "), transform: `translate(${x} ${y})` });
    const [halo, disc, mark] = group.children;
    if (!halo || !disc || !mark) return;
    setAttributes(halo, { r: heads.has(record.name) ? RADIUS + 4 : 0 });
    const isMerge = record.parents.length > 1;
    // Epochs are squares, what merges has a hole.
    const side = record.kind === "epoch" ? RADIUS : 0;
    setAttributes(disc, {
      x: -RADIUS,
      y: -RADIUS,
      width: 2 * RADIUS,
      height: 2 * RADIUS,
      rx: side ? 3 : RADIUS,
    });
    setAttributes(mark, { r: isMerge ? RADIUS / 2.4 : 0 });
  }

  #createRow(name: string): HTMLLIElement {
    const item = html("li");
    const button = html("button", "row");
    button.type = "button";
    button.append(
      html("span", "writer"),
      html("span", "title"),
      html("span", "tags"),
      html("span", "visually-hidden"),
      html("time"),
    );
    button.addEventListener("click", () => this.#events.onChosen(name));
    item.append(button);
    return item;
  }

  #updateRow(item: HTMLLIElement, { record, index }: Row, graph: Graph, isStop: boolean): void {
    const button = item.firstElementChild;
    const [writer, title, tags, more, time] = button?.children ?? [];
    if (!(button instanceof HTMLButtonElement) || !writer || !title || !tags || !more || !time) return;
    item.style.top = `${index * ROW}px`;
    item.setAttribute("aria-setsize", graph.isWhole ? String(graph.records.length) : "-1");
    item.setAttribute("aria-posinset", String(index + 1));
    const isChosen = record.name === this.#chosen;
    button.setAttribute("aria-pressed", String(isChosen));
    button.classList.toggle("proof", this.#path.includes(record.name));
    button.tabIndex = isStop ? 0 : -1;
    writer.className = `writer ${writerClass(graph.writers, record.writer)}`;
    setText(writer, writerOf(graph.writers, record.writer).name);
    setText(title, titleOf(record));
    const named = tagsOf(record, graph);
    reconcile(
      tags,
      named,
      (tag) => tag,
      () => html("span", "tag"),
      (tag, text) => setText(tag, text),
    );
    const merged = record.parents.length > 1 ? `, merges ${record.parents.length} branches` : "";
    setText(
      more,
      `, record ${record.name.slice(0, 8)}, sequence ${record.sequence}, epoch ${record.epoch}${merged}`,
    );
    const written = timeOf(record);
    setText(time, written?.toLocaleTimeString([], { hour12: false }) ?? "");
  }

  #onKey(event: KeyboardEvent): void {
    const rows = this.#lanes.rows;
    const button = document.activeElement;
    const name = button?.parentElement?.getAttribute("data-key");
    const at = rows.findIndex(({ record }) => record.name === name);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined || at < 0 || !this.#hasFocus) return;
    event.preventDefault();
    const next = rows[Math.min(Math.max(to, 0), rows.length - 1)];
    if (next === undefined) return;
    this.reveal(next.record.name);
    const item = [...this.#list.children].find(
      (child) => child.getAttribute("data-key") === next.record.name,
    );
    if (item?.firstElementChild instanceof HTMLElement) item.firstElementChild.focus({ preventScroll: true });
  }
}

/** The colour of a writer: that of its platform, or one by its number. */
export function writerClass(writers: readonly Writer[], number: number): string {
  const { name } = writerOf(writers, number);
  const isPlatform = ["workerd", "deno", "wasmtime"].includes(name);
  return isPlatform ? `on-${name}` : number === 0 ? "by-owner" : `by-${number % WRITER_COLOURS}`;
}

/** What is known of all records that are shown, in one sentence. */
export function summaryOf({ records, heads, isWhole }: Graph): string {
  const writers = new Set(records.map(({ writer }) => writer)).size;
  const merges = records.filter(({ parents }) => parents.length > 1).length;
  const epoch = Math.max(0, ...records.map((record) => record.epoch));
  const counts = [
    `${isWhole ? "" : "The newest "}${count(records.length, "record")} by ${count(writers, "writer")}`,
    count(heads.size, "head"),
    count(merges, "merge"),
    `epoch ${epoch}`,
  ];
  return `${counts.join(", ")}; each verified in this page`;
}

function tagsOf({ name, kind, parents }: Row["record"], { heads }: Graph): string[] {
  return [
    ...(heads.has(name) ? ["signed head"] : []),
    ...(kind === "epoch" ? ["epoch"] : []),
    ...(parents.length > 1 ? ["merge"] : []),
  ];
}

function createNode(): SVGGElement {
  const group = svg("g");
  group.append(
    svg("circle", { class: "halo" }),
    svg("rect", { class: "disc" }),
    svg("circle", { class: "mark" }),
  );
  return group;
}

function keyOf({ record }: Row): string {
  return record.name;
}
